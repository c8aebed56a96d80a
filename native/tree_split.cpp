#include "tree_split.h"

#include <algorithm>

namespace wl {

namespace {

float extent(const Box& b, int axis) { return b.upper[axis] - b.lower[axis]; }

int longest_axis(const Box& centers) {
    int axis = 0;
    for (int k = 1; k < 3; ++k) {
        if (extent(centers, k) > extent(centers, axis)) axis = k;
    }
    return axis;
}

Whole4 whole_at(const int32_t* p) {
    Whole4 found;
    std::memcpy(&found, p, sizeof found);
    return found;
}
Four as_float(Whole4 x) { return __builtin_convertvector(x, Four); }
Four as_float_bits(Whole4 x) {
    Four bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}
// `x` with NaN, which boxes ignore, where `mask` is set.
Four without(Four x, Whole4 mask) {
    Whole4 bits;
    std::memcpy(&bits, &x, sizeof bits);
    return as_float_bits(bits | mask);
}

// Half of the areas of three boxes, times the items in each; infinity where there are none.
Four costs(const Box* boxes, Whole4 count) {
    Four x = boxes[0].upper - boxes[0].lower, y = boxes[1].upper - boxes[1].lower;
    Four z = boxes[2].upper - boxes[2].lower, rest = four(0);
    transpose(x, y, z, rest);
    const Four area = x * y + y * z + z * x;
    const Four cost = (x >= four(0) ? area : four(0)) * as_float(count);
    return count > 0 ? cost : four(kInfinity);
}

// Items are in the order of their codes: the place where the highest bit in which they differ changes.
int64_t split_codes(const Item* items, int64_t begin, int64_t end) {
    const uint32_t first = items[begin].code, last = items[end - 1].code;
    if (first == last) return begin + (end - begin) / 2;
    const uint32_t bit = 1u << (31 - __builtin_clz(first ^ last));
    return std::partition_point(items + begin, items + end, [bit](const Item& i) { return !(i.code & bit); }) - items;
}

Box centers_of(const Item* items, int64_t begin, int64_t end) {
    Box centers;
    for (int64_t i = begin; i < end; ++i) {
        const Four c = items[i].center();
        centers.add(c, c);
    }
    return centers;
}

}  // namespace

// The sum first: compilers can not join its operations, and so find the same number wherever they write them.
Four Item::center() const {
    const Four c = four(0.5f) * (low() + high());
    return least(most(c == c ? c : four(0), four(-1e30f)), four(1e30f));
}

Bins::Bins(const Range& range) : low(range.centers.lower) {
    last = static_cast<int>(std::min<int64_t>(kBins, range.size() + 2)) - 1;
    for (int k = 0; k < 4; ++k) {
        const float size = k < 3 ? extent(range.centers, k) : 0;
        scale[k] = size > 0 ? static_cast<float>(last + 1) / size : 0;
    }
    low[3] = 0;
}

void BinCounts::clear(const Bins& bins) {
    for (int b = 0; b <= bins.last; ++b) {
        for (int axis = 0; axis < 3; ++axis) lower[b][axis] = four(kInfinity), upper[b][axis] = four(-kInfinity);
        for (int32_t& n : count[b]) n = 0;
    }
}

void BinCounts::add(const Item* items, int64_t n, const Bins& bins) {
    for (int64_t i = 0; i < n; ++i) {
        const Item& item = items[i];
        const Four low = item.low(), high = item.high();
        const Whole4 at = __builtin_convertvector(bins.of(item.center()), Whole4);
        for (int axis = 0; axis < 3; ++axis) {
            const int b = at[axis];
            lower[b][axis] = least(low, lower[b][axis]);
            upper[b][axis] = most(high, upper[b][axis]);
            ++count[b][axis];
        }
    }
}

void BinCounts::add(const BinCounts& other, const Bins& bins) {
    for (int b = 0; b <= bins.last; ++b) {
        for (int axis = 0; axis < 3; ++axis) {
            lower[b][axis] = least(other.lower[b][axis], lower[b][axis]);
            upper[b][axis] = most(other.upper[b][axis], upper[b][axis]);
        }
        for (int k = 0; k < 4; ++k) count[b][k] += other.count[b][k];
    }
}

int64_t BinCounts::before(int axis, int bin) const {
    int64_t n = 0;
    for (int b = 0; b <= bin; ++b) n += count[b][axis];
    return n;
}

Cut cheapest_cut(const BinCounts& counts, const Bins& bins) {
    Four right[kBins];  // the cost of all bins from one on
    Box sum[3];
    Whole4 n = {};
    for (int b = bins.last; b > 0; --b) {
        for (int axis = 0; axis < 3; ++axis) sum[axis].add(counts.lower[b][axis], counts.upper[b][axis]);
        n += whole_at(counts.count[b]);
        right[b] = costs(sum, n);
    }
    for (Box& s : sum) s = Box();
    n = Whole4{};
    Four best = four(kInfinity);
    Whole4 bin = {};
    for (int b = 0; b < bins.last; ++b) {
        for (int axis = 0; axis < 3; ++axis) sum[axis].add(counts.lower[b][axis], counts.upper[b][axis]);
        n += whole_at(counts.count[b]);
        const Four cost = costs(sum, n) + right[b + 1];
        const Whole4 better = cost < best;
        best = better ? cost : best;
        bin = better ? Whole4{b, b, b, b} : bin;
    }
    Cut cut;
    float least_cost = kInfinity;
    for (int axis = 0; axis < 3; ++axis) {
        if (best[axis] < least_cost) least_cost = best[axis], cut.axis = axis, cut.bin = bin[axis];
    }
    return cut;
}

void part(const Item* items, int64_t n, const Bins& bins, const Cut& cut, Item* left, Item* right, Box* left_centers,
          Box* right_centers) {
    const Four end = four(static_cast<float>(cut.bin + 1));
    Box on_left, on_right;
    intptr_t to_left = reinterpret_cast<intptr_t>(left), to_right = reinterpret_cast<intptr_t>(right);
    for (int64_t i = 0; i < n; ++i) {  // without branches: nobody can foretell the sides
        const Four center = items[i].center();
        const Whole4 below = bins.of(center) < end;
        const int32_t side = below[cut.axis];  // all bits for the left one
        const Whole4 mask = {side, side, side, side};
        const Four of_left = without(center, ~mask), of_right = without(center, mask);
        on_left.add(of_left, of_left);
        on_right.add(of_right, of_right);
        const intptr_t is_left = side;
        *reinterpret_cast<Item*>(to_right ^ ((to_right ^ to_left) & is_left)) = items[i];
        to_left += static_cast<intptr_t>(sizeof(Item)) & is_left;
        to_right += static_cast<intptr_t>(sizeof(Item)) & ~is_left;
    }
    left_centers->add(on_left);
    right_centers->add(on_right);
}

bool Splitter::is_binned(const Range& range) const {
    return method_ == kSah && range.depth < kUnbalanced && extent(range.centers, longest_axis(range.centers)) > 0;
}

void Splitter::set_sides(const Range& range, int64_t count, Range* left, Range* right) const {
    const int64_t middle = range.begin + count;
    *left = {range.begin, middle, range.depth + 1, 1 - range.buffer, {}};
    *right = {middle, range.end, range.depth + 1, 1 - range.buffer, {}};
}

void Splitter::split(const Range& range, Range* left, Range* right) const {
    if (is_binned(range)) {
        const Bins bins(range);
        const Item* from = buffers_[range.buffer] + range.begin;
        BinCounts counts;
        counts.clear(bins);
        counts.add(from, range.size(), bins);
        const Cut cut = cheapest_cut(counts, bins);
        if (cut.axis >= 0) {
            set_sides(range, counts.before(cut.axis, cut.bin), left, right);
            Item* to = buffers_[left->buffer];
            part(from, range.size(), bins, cut, to + left->begin, to + right->begin, &left->centers, &right->centers);
            return;
        }
    }
    split_evenly(range, left, right);
}

void Splitter::split_evenly(const Range& range, Range* left, Range* right) const {
    Item* items = buffers_[range.buffer];
    int64_t middle = range.begin + range.size() / 2;
    if (method_ == kMorton) {
        middle = split_codes(items, range.begin, range.end);
    } else {
        const int axis = longest_axis(range.centers);
        if (extent(range.centers, axis) > 0) {
            std::nth_element(items + range.begin, items + middle, items + range.end,
                             [axis](const Item& a, const Item& b) {
                                 const float x = a.center()[axis], y = b.center()[axis];
                                 return x != y ? x < y : a.index < b.index;
                             });
        }
    }
    *left = {range.begin, middle, range.depth + 1, range.buffer, {}};
    *right = {middle, range.end, range.depth + 1, range.buffer, {}};
    if (method_ == kMorton) return;
    left->centers = centers_of(items, left->begin, left->end);
    right->centers = centers_of(items, right->begin, right->end);
}

}  // namespace wl
