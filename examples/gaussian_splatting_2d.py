"""Fit a photograph with thousands of 2-D Gaussians, by gradients through kernels.

    python examples/gaussian_splatting_2d.py --gaussians 3000 --iterations 300

Every Gaussian ``g`` has a centre ``mu`` (px), two standard deviations ``s1, s2`` (px,
at least ``MIN_SCALE``), an angle ``theta`` (rad), a colour ``c`` (the image's RGB,
where 1 is full scale) and an opacity ``o`` (0 to 1). With ``R`` the rotation by
``theta``, its falloff at the point ``p`` is

    G(p) = max(0, exp(-q / 2) - exp(-CUTOFF / 2)),
    q    = (p - mu)^T A (p - mu),   A = R diag(1/s1^2, 1/s2^2) R^T.

Points are in px, and the pixel in column x and row y has its centre at (x + 0.5, y +
0.5). The second term makes it end at ``q = CUTOFF`` without a step; a step has no
gradient, and Gaussians would leave pixels uncovered without noticing. An image has no
depth, so nothing is sorted: a pixel is the average of its Gaussians, weighted by
opacity and falloff,

    C(p) = sum_g o_g G_g(p) c_g / (EPSILON + sum_g o_g G_g(p)).

The loss is the mean squared error over pixels and channels, and PSNR = -10 log10(loss)
dB.

Four differentiable kernels make the loss: ``prepare`` turns the optimizer's unbounded
parameters into ``mu``, ``A`` and colour premultiplied by opacity; ``rasterise``
evaluates both sums, one thread a pixel; ``normalise`` divides them; ``squared_error``
compares with the photograph. A tape records these four launches once. Its backward pass
leaves the gradients in the ``.grad`` of the PyTorch tensors that Adam steps on: the
kernels work in the tensors' own memory.

A fifth kernel, ``bin_gaussians``, is not differentiated: for every tile of 16 x 16
pixels it lists the Gaussians that reach into it, so that a pixel looks at a few dozen
of them and not at thousands. It takes about a hundredth of a step's time and runs
before every rendering, so the tiles change how long that takes but not what comes out.

Sources:
    Zwicker, Pfister, van Baar, Gross: "EWA Splatting", IEEE TVCG 2002 (elliptical
        Gaussians on an image plane).
    Kerbl, Kopanas, Leimkuehler, Drettakis: "3D Gaussian Splatting for Real-Time
        Radiance Field Rendering", ACM TOG 2023 (covariance from scales and rotation, 16
        x 16 tiles, first scales from the distance to the neighbours).
    Zhang et al.: "GaussianImage: 1000 FPS Image Representation and Compression by 2D
        Gaussian Splatting", ECCV 2024 (one image, no depth order, weighted sums).
    Zhang et al.: "Image-GS: Content-Adaptive Image Representation via 2D Gaussians",
        SIGGRAPH 2025 (normalised weights, first centres drawn by image gradient).
    Kingma, Ba: "Adam: A Method for Stochastic Optimization", ICLR 2015.

The photograph is NASA's portrait of Eileen Collins (public domain), which scikit-image
ships as ``data.astronaut()``.
"""

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

import warp_like as wp

TILE = 16  # edge of a tile, px
CUTOFF = 9.0  # largest q that still counts: a Gaussian ends at 3 standard deviations
FLOOR = math.exp(-0.5 * CUTOFF)  # taken off every falloff, which ends without a step
EPSILON = 1.0e-3  # weight of the black background
MIN_SCALE = 0.3  # smallest standard deviation, px: else some slip between pixel centres
TILE_CAPACITY = 1024  # most Gaussians that one tile can list


# --- kernels -----------------------------------------------------------------


@wp.func
def sigmoid(x: float):
    return 1.0 / (1.0 + wp.exp(-x))


@wp.func
def mahalanobis_sq(d: wp.vec2, conic: wp.vec3):
    """Return d^T A d for the symmetric A = [[conic.x, conic.y], [conic.y, conic.z]]."""
    mixed = 2.0 * conic[1] * d[0] * d[1]
    return conic[0] * d[0] * d[0] + mixed + conic[2] * d[1] * d[1]


@wp.func
def inverse_variance(log_scale: float):
    return 1.0 / (MIN_SCALE * MIN_SCALE + wp.exp(2.0 * log_scale))


@wp.kernel
def prepare(
    centres: wp.array2d(dtype=float),
    log_scales: wp.array2d(dtype=float),
    angles: wp.array(dtype=float),
    colours: wp.array2d(dtype=float),
    opacities: wp.array(dtype=float),
    means: wp.array(dtype=wp.vec2),
    conics: wp.array(dtype=wp.vec3),
    paints: wp.array(dtype=wp.vec4),
):
    """Turn the optimizer's parameters into splats; one thread a Gaussian."""
    g = wp.tid()
    c = wp.cos(angles[g])
    s = wp.sin(angles[g])
    rotation = wp.mat22(c, -s, s, c)
    along = inverse_variance(log_scales[g, 0])
    across = inverse_variance(log_scales[g, 1])
    stretch = wp.mat22(along, 0.0, 0.0, across)
    a = rotation * stretch * wp.transpose(rotation)
    o = sigmoid(opacities[g])
    means[g] = wp.vec2(centres[g, 0], centres[g, 1])
    conics[g] = wp.vec3(a[0, 0], a[0, 1], a[1, 1])
    paints[g] = wp.vec4(o * colours[g, 0], o * colours[g, 1], o * colours[g, 2], o)


@wp.func
def tile_index(position: float, tiles: int):
    """Return the tile that holds a coordinate in px, clamped to the image."""
    return int(wp.clamp(wp.floor(position / float(TILE)), 0.0, float(tiles - 1)))


@wp.kernel
def bin_gaussians(
    means: wp.array(dtype=wp.vec2),
    conics: wp.array(dtype=wp.vec3),
    tiles_x: int,
    tiles_y: int,
    counts: wp.array(dtype=int),
    lists: wp.array2d(dtype=int),
):
    """List every Gaussian in the tiles that its box touches; one thread a Gaussian.

    ``counts`` (zero before the launch) counts also those that found their list full, so
    that the host can tell.
    """
    g = wp.tid()
    mean = means[g]
    conic = conics[g]
    # The ellipse d^T A d = CUTOFF reaches sqrt(CUTOFF * (A^-1)_xx) to either side.
    scale = CUTOFF / (conic[0] * conic[2] - conic[1] * conic[1])
    reach = wp.vec2(wp.sqrt(scale * conic[2]), wp.sqrt(scale * conic[0]))
    low = mean - reach
    high = mean + reach
    in_x = high[0] > 0.0 and low[0] < float(tiles_x * TILE)
    in_y = high[1] > 0.0 and low[1] < float(tiles_y * TILE)
    if in_x and in_y:
        for ty in range(tile_index(low[1], tiles_y), tile_index(high[1], tiles_y) + 1):
            first = tile_index(low[0], tiles_x)
            for tx in range(first, tile_index(high[0], tiles_x) + 1):
                tile = ty * tiles_x + tx
                slot = wp.atomic_add(counts, tile, 1)
                if slot < lists.shape[1]:
                    lists[tile, slot] = g


@wp.kernel
def rasterise(
    means: wp.array(dtype=wp.vec2),
    conics: wp.array(dtype=wp.vec3),
    paints: wp.array(dtype=wp.vec4),
    counts: wp.array(dtype=int),
    lists: wp.array2d(dtype=int),
    tiles_x: int,
    sums: wp.array2d(dtype=wp.vec4),
):
    """Add up the Gaussians that reach a pixel: colour in ``xyz``, weight in ``w``.

    The threads of one tile are neighbours in the grid, so that they share its list
    while it is in the cache.
    """
    tile, k = wp.tid()
    x = (tile % tiles_x) * TILE + k % TILE
    y = (tile // tiles_x) * TILE + k // TILE
    if x < sums.shape[1] and y < sums.shape[0]:
        p = wp.vec2(float(x) + 0.5, float(y) + 0.5)
        total = wp.vec4(0.0, 0.0, 0.0, 0.0)
        for i in range(wp.min(counts[tile], lists.shape[1])):
            g = lists[tile, i]
            q = mahalanobis_sq(p - means[g], conics[g])
            if q < CUTOFF:
                total += (wp.exp(-0.5 * q) - FLOOR) * paints[g]
        sums[y, x] = total


@wp.kernel
def normalise(sums: wp.array2d(dtype=wp.vec4), image: wp.array2d(dtype=wp.vec3)):
    """Divide colour by weight; one thread a pixel."""
    y, x = wp.tid()
    s = sums[y, x]
    image[y, x] = wp.vec3(s[0], s[1], s[2]) / (s[3] + EPSILON)


@wp.kernel
def squared_error(
    image: wp.array2d(dtype=wp.vec3),
    target: wp.array2d(dtype=wp.vec3),
    factor: float,
    loss: wp.array(dtype=float),
):
    """Add ``factor`` times the squared error; one thread a row, so that few meet."""
    y = wp.tid()
    row = wp.float32(0.0)
    for x in range(image.shape[1]):
        e = image[y, x] - target[y, x]
        row += wp.dot(e, e)
    wp.atomic_add(loss, 0, factor * row)


# --- the scene ---------------------------------------------------------------


class Scene:
    """The Gaussians as PyTorch tensors, and the launches that make image and loss."""

    def __init__(
        self, target: np.ndarray, count: int, seed: int = 0, device: str = "cpu"
    ):
        height, width, _ = target.shape
        self.tiles_x, self.tiles_y = math.ceil(width / TILE), math.ceil(height / TILE)
        self.parameters = initial_parameters(target, count, seed, device)
        self.inputs = [wp.from_torch(tensor) for tensor in self.parameters.values()]
        self.device = self.inputs[0].device

        self.means = self.zeros(count, wp.vec2, requires_grad=True)
        self.conics = self.zeros(count, wp.vec3, requires_grad=True)
        self.paints = self.zeros(count, wp.vec4, requires_grad=True)
        tiles = self.tiles_x * self.tiles_y
        self.counts = self.zeros(tiles, int)
        self.lists = self.zeros((tiles, min(count, TILE_CAPACITY)), int)
        self.sums = self.zeros((height, width), wp.vec4, requires_grad=True)
        self.image = self.zeros((height, width), wp.vec3, requires_grad=True)
        target = target.astype(np.float32)
        self.target = wp.array(target, dtype=wp.vec3, device=self.device)
        self.loss = self.zeros(1, float, requires_grad=True)

    def zeros(self, shape, dtype, requires_grad: bool = False):
        options = {"requires_grad": requires_grad, "device": self.device}
        return wp.zeros(shape, dtype=dtype, **options)

    def launch(self, kernel, dim, inputs, outputs, record_tape: bool = True) -> None:
        wp.launch(
            kernel,
            dim,
            inputs=inputs,
            outputs=outputs,
            device=self.device,
            record_tape=record_tape,
        )

    def forward(self) -> None:
        """Render ``image`` and sum up ``loss``, from the parameters as they are now."""
        height, width = self.image.shape
        splats = [self.means, self.conics, self.paints]
        self.launch(prepare, len(self.means), self.inputs, splats)
        self.fill_tiles()
        tiles = [self.counts, self.lists, self.tiles_x]
        grid = (len(self.counts), TILE * TILE)
        self.launch(rasterise, grid, [*splats, *tiles], [self.sums])
        self.launch(normalise, (height, width), [self.sums], [self.image])
        self.loss.zero_()
        factor = 1.0 / (3 * height * width)
        inputs = [self.image, self.target, factor]
        self.launch(squared_error, height, inputs, [self.loss])

    def fill_tiles(self) -> None:
        """List the Gaussians of every tile; a tape has no use for these integers."""
        self.counts.zero_()
        splats = [self.means, self.conics, self.tiles_x, self.tiles_y]
        tiles = [self.counts, self.lists]
        self.launch(bin_gaussians, len(self.means), splats, tiles, record_tape=False)

    def dropped(self) -> int:
        """Return how many entries the last ``fill_tiles`` left out of full tiles."""
        return int(np.maximum(self.counts.numpy() - self.lists.shape[1], 0).sum())


def initial_parameters(
    target: np.ndarray, count: int, seed: int, device: str
) -> dict[str, torch.Tensor]:
    """Scatter round Gaussians in the colour of their pixels, more where it changes.

    Three tenths of the centres are spread evenly, the others follow the gradient's
    magnitude (Image-GS). The standard deviation comes from the mean distance to the
    three nearest neighbours (3D Gaussian Splatting).
    """
    width = target.shape[1]
    rng = np.random.default_rng(seed)
    slope = np.hypot(*np.gradient(target.mean(axis=2))) + 1.0e-6
    chance = 0.3 / slope.size + 0.7 * slope / slope.sum()
    chosen = rng.choice(slope.size, size=count, p=chance.ravel() / chance.sum())
    y, x = np.divmod(chosen, width)
    centres = np.stack([x, y], axis=1) + rng.random((count, 2))
    scales = np.log(0.6 * neighbour_distance(centres))
    values = {
        "centres": centres,
        "log_scales": np.repeat(scales[:, None], 2, axis=1),
        "angles": rng.random(count) * math.pi,
        "colours": target[y, x],
        "opacities": np.zeros(count),
    }
    options = {"dtype": torch.float32, "device": device, "requires_grad": True}
    return {name: torch.tensor(value, **options) for name, value in values.items()}


def neighbour_distance(points: np.ndarray) -> np.ndarray:
    """Return every point's mean distance (px) to its three neighbours, at least 0.5."""
    points = torch.tensor(points, dtype=torch.float32)
    nearest = torch.cdist(points, points).topk(4, largest=False).values[:, 1:]
    return nearest.mean(dim=1).clamp(min=0.5).numpy()


# --- optimisation ------------------------------------------------------------

# Steps of Adam: px, log px, rad, colour (0 to 1), log-odds.
LEARNING_RATES = {
    "centres": 0.3,
    "log_scales": 0.07,
    "angles": 0.1,
    "colours": 0.02,
    "opacities": 0.05,
}


@dataclass
class Result:
    """The result of ``fit``: an image (height, width, 3), 0 to 1, and all losses."""

    image: np.ndarray
    losses: list[float]  # the mean squared error after each step
    psnr: float  # of ``image``, dB
    seconds: float  # optimisation alone, with the compilation of new kernels
    dropped: int  # list entries that the last rendering lost to full tiles
    parameters: dict[str, torch.Tensor]


def decibels(mse: float) -> float:
    """Return the peak signal-to-noise ratio of a mean squared error; the peak is 1."""
    return -10.0 * math.log10(max(mse, 1.0e-12))


def fit(
    target: np.ndarray,
    gaussians=3000,
    iterations=300,
    seed=0,
    device="cpu",
    report=None,
) -> Result:
    """Fit Gaussians to an image.

    ``target`` is (height, width, 3), 0 to 1. ``report(step, loss)`` is called after
    every step, if given.
    """
    scene = Scene(target, gaussians, seed, device)
    rates = LEARNING_RATES.items()
    groups = [{"params": [scene.parameters[name]], "lr": rate} for name, rate in rates]
    optimizer = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, iterations)

    start = time.perf_counter()
    tape = wp.Tape()
    with tape:
        scene.forward()
    losses = []
    for step in range(1, iterations + 1):
        tape.zero()
        tape.backward(loss=scene.loss)  # fills the .grad of the optimizer's tensors
        optimizer.step()
        schedule.step()
        scene.forward()
        losses.append(float(scene.loss.numpy()[0]))
        if report:
            report(step, losses[-1])
    seconds = time.perf_counter() - start

    image = np.clip(scene.image.numpy(), 0.0, 1.0)
    psnr = decibels(np.mean(np.square(image.astype(np.float64) - target)))
    return Result(image, losses, psnr, seconds, scene.dropped(), scene.parameters)


# --- the program -------------------------------------------------------------


def load_photograph(size: int, path: str | None = None) -> np.ndarray:
    """Return the middle square of a photograph as (size, size, 3), 0 to 1."""
    import skimage

    photo = skimage.io.imread(path) if path else skimage.data.astronaut()
    photo = photo[..., :3] if photo.ndim == 3 else np.stack([photo] * 3, axis=2)
    edge = min(photo.shape[:2])
    top, left = (photo.shape[0] - edge) // 2, (photo.shape[1] - edge) // 2
    square = photo[top : top + edge, left : left + edge]
    return skimage.transform.resize(square, (size, size), anti_aliasing=True)


OUTPUT = Path(__file__).parent / "output"


def progress(steps: int):
    """Return a function of a step's number and loss that moves a progress bar."""
    bar = tqdm(total=steps, unit="step", disable=None)

    def report(step: int, loss: float) -> None:
        words = f"loss {loss:.6f}, PSNR {decibels(loss):.2f} dB"
        bar.set_postfix_str(words, refresh=False)
        bar.update(step - bar.n)
        if step == steps:
            bar.close()

    return report


def save_figure(path: Path, target: np.ndarray, result: Result) -> None:
    """Draw target, result and error side by side, and the losses below them."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    count = len(result.parameters["angles"])
    error = 255.0 * np.sqrt(np.mean(np.square(result.image - target), axis=2))
    figure = plt.figure(figsize=(12.0, 7.2), layout="constrained")
    grid = figure.add_gridspec(2, 3, height_ratios=[2.2, 1.0])
    titles = [
        "photograph",
        f"{count} Gaussians, {result.psnr:.1f} dB",
        "error (RMS of the channels, of 255)",
    ]
    panels = zip(titles, [target, result.image, error], strict=True)
    for column, (title, image) in enumerate(panels):
        axes = figure.add_subplot(grid[0, column])
        axes.set_title(title)
        axes.set_axis_off()
        limits = {"vmin": 0.0, "vmax": np.percentile(image, 99.5)}
        shown = axes.imshow(image, cmap="inferno", **limits)
    figure.colorbar(shown, ax=axes, shrink=0.85)
    draw_curve(figure.add_subplot(grid[1, :]), result)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_curve(axes, result: Result) -> None:
    """Draw loss (left scale) and PSNR (right scale) over the steps."""
    steps = np.arange(1, len(result.losses) + 1)
    axes.semilogy(steps, result.losses, color="tab:red")
    axes.set_xlabel(f"step ({result.seconds:.1f} s in all)")
    axes.set_ylabel("mean squared error", color="tab:red")
    axes.grid(alpha=0.3)
    right = axes.twinx()
    right.plot(steps, [decibels(loss) for loss in result.losses], color="tab:blue")
    right.set_ylabel("PSNR (dB)", color="tab:blue")
    axes.set_xlim(0, len(steps))


def at_least(low: int):
    """Return an argparse type: an integer that is not below ``low``."""

    def parse(text: str) -> int:
        value = int(text)
        if value < low:
            raise argparse.ArgumentTypeError(f"{value} is below {low}")
        return value

    return parse


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Fit a photograph with 2-D Gaussians by gradient descent."
    )
    parser.add_argument(
        "--gaussians",
        type=at_least(4),
        default=3000,
        help="how many (default: %(default)s)",
    )
    parser.add_argument(
        "--iterations",
        type=at_least(1),
        default=300,
        help="of Adam (default: %(default)s)",
    )
    parser.add_argument(
        "--size",
        type=at_least(8),
        default=256,
        help="edge in px (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the first guess (default: %(default)s)"
    )
    parser.add_argument(
        "--image", help="a photograph of your own (default: scikit-image's astronaut)"
    )
    parser.add_argument(
        "--device",
        default="cpu",
        help="where PyTorch's tensors live (default: %(default)s)",
    )
    parser.add_argument(
        "--output", type=Path, default=OUTPUT, help="folder for the picture"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> Result:
    options = parse_arguments(argv)
    say = (lambda text: None) if options.quiet else print
    target = load_photograph(options.size, options.image)
    size = options.size
    say(
        f"Fitting {options.gaussians} Gaussians to {size} x {size} px "
        f"on {options.device} ..."
    )
    report = None if options.quiet else progress(options.iterations)
    result = fit(
        target,
        options.gaussians,
        options.iterations,
        options.seed,
        options.device,
        report,
    )
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "gaussian_splatting_2d.png"
    save_figure(path, target, result)
    say(f"{result.psnr:.2f} dB after {result.seconds:.1f} s. Picture: {path}")
    if result.dropped:
        say(f"Full tiles left out {result.dropped} Gaussians; raise TILE_CAPACITY.")
    return result


if __name__ == "__main__":
    main()
