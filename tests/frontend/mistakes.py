"""Kernels with one mistake each, by name. Lines count from the first line of each text."""

MISTAKES: dict[str, str] = {}


def mistake(name: str, source: str) -> None:
    assert name not in MISTAKES, name
    MISTAKES[name] = source


def body(
    name: str,
    statements: str,
    params: str = "a: wp.array(dtype=float), x: float, i: int, v: wp.vec3, m: wp.mat22",
) -> None:
    """A kernel with usual parameters."""
    indented = "\n".join(f"    {line}" for line in statements.strip("\n").splitlines())
    mistake(name, f"def k({params}):\n{indented}\n")


# --- types ---

body("mixed_types", "a[0] = x + i")
body("mixed_types_f64", "y = wp.float64(x)\na[0] = x * y")
body("wrong_literal", "j = i + 0.5")
body("literal_too_large", "j = wp.uint8(3)\nj = j + 300")
body("builtin_argument", "a[0] = wp.sin(i)")
body("builtin_argument_count", "a[0] = wp.sin(x, x)")
body("builtin_keyword", "a[0] = wp.clamp(x, lower=0.0, high=1.0)")
body("vector_times_vector", "w = v * v")
body("store_wrong_type", "a[0] = i")
body("store_vector", "a[0] = v")
body("variable_changes_type", "y = x\ny = i")
body("parameter_changes_type", "x = wp.vec2(1.0, 2.0)")
body("augmented_changes_type", "n = 0\nn += x")
body("augmented_element", "a[0] += i")
body("augmented_component", "v.x += i")
body("annotated_variable", "y: wp.float64 = x")
body("ternary_types", "y = x if i > 0 else i")
body("vector_component_type", "w = wp.vec3(x, i, 1.0)")
body("vector_component_count", "w = wp.vec3(x, x)")
body("vector_of_vector", "w = wp.vec3(wp.vec2(x, x), 1.0)")
body("matrix_of_rows", "w = wp.mat22(wp.vec2(x, x), wp.vec2(x, x))")
body("cast_of_vector", "y = float(v)")
body("cast_bits", "y = wp.cast(x, wp.float64)")
body("condition_of_vector", "if v:\n    a[0] = 1.0")
body("array_arithmetic", "b = a + 1.0")
body("tuple_arithmetic", "s = a.shape + 1")
body("range_types", "for q in range(i, wp.int64(5)):\n    a[0] = x")
body("atomic_value", "wp.atomic_add(a, 0, i)")
body("atomic_indices", "wp.atomic_add(a, 0, 1, x)")
body("atomic_no_array", "wp.atomic_add(x, 0, x)")
body("atomic_and_of_float", "wp.atomic_and(a, 0, x)")
body("sum_that_starts_as_integer", "s = 0\nfor q in range(3):\n    s += a[q]\na[0] = s")
body("sum_of_float64_that_starts_as_integer", "s = 0\ns = s + wp.float64(x)")
body("sum_of_vectors_that_starts_as_integer", "s = 0\nfor q in range(3):\n    s += v")
body("largest_that_starts_as_integer", "s = 0\nfor q in range(3):\n    s = wp.max(s, a[q])\na[0] = s")
body("mean_of_counted", "n = 0\nn += 1\na[0] = x / n")
body("integer_start_that_becomes_float", "y = 2\nif i > 0:\n    y = 0.5\na[0] = y")
body("integer_too_large_for_element", "c[0] = 3000000000", "c: wp.array(dtype=int)")
body("integer_too_large_for_any", "c[0] = 1180591620717411303424", "c: wp.array(dtype=int)")
body("integer_too_large_for_sum", "y = i + 3000000000")
body("tuple_for_vector", "p[0] = (x, 2.0, 3.0)", "p: wp.array(dtype=wp.vec3d), x: wp.float64")
body("tuple_times_vector", "w = v * (1.0, 2.0, 3.0)")
body("tuple_argument", "y = wp.dot(v, (1.0, 2.0, 3.0))")
body("square_of_integer", "c[0] = i**2", "c: wp.array(dtype=int), i: int")
body("cube_of_integers", "c[0] = (i + 1) ** 3", "c: wp.array(dtype=int), i: int")
body("square_of_integer_that_is_called", "c[0] = abs(i) ** 2", "c: wp.array(dtype=int), i: int")

# --- names and attributes ---

body("undefined", "a[0] = lenght")
body("undefined_near", "length = x\na[0] = lenght")
body("undefined_thread_index", "a[j] = 1.0")
body("undefined_thread_indices", "b[p, q] = 1.0", "b: wp.array2d(dtype=float)")
body("undefined_index_beside_the_threads", "q = wp.tid()\na[j] = 1.0")
mistake(
    "undefined_thread_index_in_func",
    "@wp.func\ndef f(a: wp.array(dtype=float)):\n    return a[i]\n\ndef k(a: wp.array(dtype=float)):\n    f(a)\n",
)
body("missing_builtin", "a[0] = wp.sinn(x)")
body("missing_subsystem", "t = wp.get_cuda_max_cluster_dim()")
body("missing_module", "t = wp.fem.lookup(a)")
body("builtin_of_another_library", "q = wp.thread_id()")
body("component_missing", "v3 = wp.vec2(x, x).z")
body("swizzle", "w = v.xy")
body("array_attribute", "n = a.strides")
body("scalar_attribute", "n = x.real")
body("types_differ_by_path", "if i > 0:\n    y = x\nelse:\n    y = i\na[0] = float(y)")
body("function_bound_in_loop", "for q in range(i):\n    f = wp.sin\na[0] = f(x)")
body("function_on_one_path", "if i > 0:\n    f = wp.sin\na[0] = f(x)")
body("read_before_its_loop_assigns_it", "for q in range(i):\n    a[q] = y\n    y = x")
body("augmented_unbound", "y += x")
body("captured_list", "for q in range(3):\n    a[q] = VALUES")
body("captured_array", "a[0] = DATA[0]")
body("captured_object", "a[0] = CONFIG")
body("captured_object_attribute", "a[0] = CONFIG.stesp")
body("captured_object_of_object", "a[0] = CONFIG.inner")
body("captured_attribute_of_none", "a[0] = CONFIG.nothing.dt")
body("captured_object_attribute_assigned", "CONFIG.dt = 1.0")
body("captured_attribute_of_variable", "for c in CONFIGS:\n    a[0] += c.dt")
body("captured_method", "a[0] = CONFIG.half()")
body("captured_array_attribute", "a[0] = float(DATA.size)")
body("captured_named_tuple_attribute", "a[0] = SIZES.widht")
body("module_as_value", "q = math")
body("module_part_assigned", "TABLE[0] = x")

# --- indices ---

body("float_index", "a[x] = 1.0")
body("too_many_indices", "a[0, 1] = x")
body("too_many_indices_of_vectors", "y = p[0, 1]", "p: wp.array(dtype=wp.vec3)")
body("vector_index_range", "y = v[3]")
body("negative_index_range", "y = v[-4]")
body("matrix_index_range", "m[0, 2] = x")
body("tuple_index", "n = a.shape[4]")
body("scalar_indexed", "y = x[0]")
body("slice_of_run_time_bounds", "w = v[i:2]")
body("component_of_a_slice_without_components", "y = v[2:1][0]")
body("computed_component_of_a_slice_without_components", "y = v[2:1][i]")
body("smallest_of_no_components", "y = wp.min(v[2:1])")
body("array_of_nothing", "y = wp.zeros(shape=(2,), dtype=type(v[2:1]))")
body("slice_step_zero", "w = v[::0]")
body("slice_assigned_wrong_length", "v[0:2] = v")
body("slice_of_too_many_dimensions", "w = v[0:2, 1]")
body("array_slice_step", "b = a[::0]")
body("array_slice_dimensions", "b = a[0:2, 1:]")
body("array_slice_assigned", "a[1:3] = 2.0")
body("column_range", "w = m[:, 2]")
body("view_assigned", "p[0] = 1.0", "p: wp.array2d(dtype=float)")
body("names_and_values", "y, z = a.shape")
body("names_and_value", "y, z = x")

# --- syntax ---

body("for_else", "for q in range(3):\n    pass\nelse:\n    a[0] = x")
body("while_else", "while i > 3:\n    break\nelse:\n    a[0] = x")
body("for_over_number", "for q in x:\n    x = q")
body("for_over_module", "for q in wp:\n    x = q")
body("for_two_names", "for p, q in range(3):\n    pass")
body("for_unpacks_items", "for p, q in ((1, 2), (3, 4, 5)):\n    pass")
body("for_items_of_two_types", "q = 1\nfor q in (1, 2.5):\n    pass")
body("for_too_many_items", "for q in range(2000):\n    a[q] = wp.static(2.0 * q)")
body("for_enumerate", "for p, q in enumerate(a):\n    pass")
body("reversed_outside", "y = reversed(v)")
body("static_of_run_time_loop", "for q in range(i):\n    a[0] = wp.static(2.0 * q)")
body("range_of_zero_step", "for q in range(0, 5, 0):\n    pass")
body("range_of_floats", "for q in range(x):\n    pass")
body("range_outside", "q = range(3)")
body("try", "try:\n    x = 1.0\nfinally:\n    pass")
body("with", "with x:\n    pass")
body("lambda", "f = lambda y: y")
body("comprehension", "b = [y for y in range(3)]")
body("list", "b = [1, 2]")
body("list_of_nothing", "b = []")
body("list_of_many", "b = [x, x, x, x, x]")
body("dict", "b = {}")
body("class", "class C:\n    pass")
body("inner_function", "def f(y: float):\n    return y")
body("import", "import math")
body("global", "global x1\nx1 = 3")
body("delete", "del x")
body("assert_message", "assert i > 0, i")
body("assert_of_vector", "assert v")
body("raise", "raise ValueError")
body("text", 'y = "abc"')
body("f_string", 'print(f"{x}")')
body("none", "y = None")
body("complex", "y = 1j")
body("is", "if x is None:\n    pass")
body("in", "if i in a:\n    pass")
body("walrus", "if (y := x) > 0.0:\n    pass")
body("starred", "y, *z = a.shape")
body("yield", "yield x")
body("division_by_literal_zero", "j = 7 // 0")

# --- calls ---

FUNCTIONS = """
@wp.func
def half(x: float):
    return x / 2.0

@wp.func
def wave(x: wp.vec2):
    return wp.sin(x)

@wp.func
def outer(x: float):
    return wave(wp.vec2(x, x))

@wp.func
def again(n: int):
    return other(n)

@wp.func
def other(n: int):
    return again(n - 1)

@wp.func
def nothing(x: float) -> float:
    if x > 0.0:
        x = 2.0

@wp.func
def either(x: float):
    if x > 0.0:
        return x
    return wp.vec2(x, x)

@wp.func
def counts(x: float):
    if x > 0.0:
        return x, x
    return x

@wp.func
def annotated(x: float) -> int:
    return x

@wp.func
def many(*xs):
    return 1.0

@wp.func
def indexed(x: float):
    return wp.tid()

@wp.func
def over(x: float):
    return x

@wp.func
def over(x: int):
    return x

def plain(x):
    return x
"""


def calls(name: str, statements: str) -> None:
    """A kernel that uses the functions above."""
    indented = "\n".join(f"    {line}" for line in statements.strip("\n").splitlines())
    mistake(name, f"{FUNCTIONS}\ndef k(a: wp.array(dtype=float), x: float, i: int):\n{indented}\n")


calls("func_argument", "a[0] = half(i)")
calls("func_argument_count", "a[0] = half(x, x)")
calls("func_keyword", "a[0] = half(y=x)")
calls("func_overload", "a[0] = over(wp.vec2(x, x))")
calls("error_inside_func", "a[0] = wave(wp.vec2(x, x)).x")
calls("error_inside_two_funcs", "a[0] = outer(x).x")
calls("recursion", "i = again(i)")
calls("return_of_nothing", "a[0] = nothing(x)")
calls("return_types", "a[0] = either(x)")
calls("return_counts", "a[0] = counts(x)")
calls("return_annotation", "i = annotated(x)")
calls("variable_arguments", "a[0] = many(x)")
calls("tid_in_func", "a[0] = float(indexed(x))")
calls("plain_function", "a[0] = plain(x)")
calls("uncalled_function", "a[0] = half")
calls("call_of_value", "a[0] = x(1.0)")
calls("unpacked_keywords", "a[0] = half(**x)")
calls("kernel_returns", "return x")
calls("too_many_thread_indices", "p, q, r, s, t, u, v, w, z = wp.tid()")
calls("static_of_local", "a[0] = wp.static(x)")
calls("static_renamed", "s = wp.static\na[0] = s(1.0)")
calls("attribute_of_function", "a[0] = half.factor")
calls("internal_attribute_of_function", "a[0] = float(half.overloads[0])")
calls("attribute_of_function_in_variable", "f = half\na[0] = f.factor")
calls("static_fails", "a[0] = wp.static(1 // 0)")
calls("static_of_object", "a[0] = wp.static(object)")
calls("printf_format", 'wp.printf("%5.2q", x)')
calls("printf_text", 'wp.printf("%s", x)')
calls("print_option", 'print(x, file="a")')
calls("print_separator", "print(x, i, sep=i)")
calls("zeros_of_run_time_shape", "b = wp.zeros(shape=(i,), dtype=float)")
calls("zeros_of_nine_dimensions", "b = wp.zeros(shape=(1, 1, 1, 1, 1, 1, 1, 1, 1), dtype=float)")
calls("zeros_too_large", "b = wp.zeros(shape=(1000, 1000), dtype=float)")
calls("zeros_of_arrays", "b = wp.zeros(shape=(2,), dtype=a)")
calls("zeros_option", "b = wp.zeros(shape=(2,), dtype=float, device=1)")
calls("array_of_data", "b = wp.array(a)")
calls("array_at_no_address", "b = wp.array(ptr=i, shape=(2,), dtype=float)")
calls("address_of_variable", "y = x\np = wp.address_of(y)")
calls("address_of_view", "p = wp.address_of(a)")
calls("address_of_component", "v = wp.vec2(x, x)\np = wp.address_of(v.x)")
calls("vector_type_of_run_time_length", "t = wp.types.vector(length=i, dtype=float)")
calls("matrix_type_of_one_dimension", "m = wp.types.matrix(shape=(2,), dtype=float)(x)")
calls("quaternion_type_of_integers", "q = wp.types.quaternion(dtype=int)(1, 2, 3, 4)")
calls("expect_types", "wp.expect_eq(x, i)")
calls("expect_near_integers", "wp.expect_near(i, 1)")
calls("expect_array", "wp.expect_eq(a, a)")
calls("printf_count", 'wp.printf("%d %d", i)')
calls("printf_type", 'wp.printf("%d", x)')

# --- what belongs to the host ---

body("numpy_function", "a[0] = np.interp(x, a, a)")
body("numpy_function_with_a_builtin", "a[0] = np.dot(v, v)")
body("numpy_zeros", "b = np.zeros(3)")
body("numpy_zeros_of_two_dimensions", "b = np.empty(shape=(3, 2), dtype=np.float32)")
body("numpy_ones_like", "b = np.ones_like(a)")
body("numpy_array", "b = np.array([x, 2.0, 3.0])")
body("numpy_array_of_array", "b = np.array(a)")
body("host_ones", "b = wp.ones(3)")
body("math_function", "a[0] = math.gamma(x)")
body("math_constant_misspelt", "a[0] = x * math.pie")
body("builtin_without_its_module", "a[0] = x + step")
body("type_as_a_value_without_its_module", "a[0] = x * vec3")
body("kernel_called", "other_kernel(a)")
body("launch_inside", "wp.launch(other_kernel, 1, inputs=[a])")
body("host_function_of_the_module", "wp.synchronize()")
body("array_method", "a.fill_(0.0)")
body("array_method_of_numpy", "s = a.sum()")
body("vector_method", "n = v.length()")
body("python_sum", "s = sum(v)")
body("python_zip", "for p, q in zip(a, a):\n    pass")
body("python_sorted", "b = sorted(v)")
body("python_str", "print(str(x))")
body("python_list", "b = list(a)")
body("python_isinstance", "if isinstance(x, float):\n    pass")
body("type_of_the_module_misspelt", "w = wp.vec33(x, x, x)")
body("text_compared", 'if i == "abc":\n    pass')
body("text_argument", 'a[0] = wp.sin("abc")')
body("text_added", 'print("a" + "b")')
body("text_formatted", 'print("%d" % i)')
body("text_index", 'y = a["x"]')
body("none_compared", "if a == None:\n    pass")
body("set", "s = {1, 2}")
body("set_comprehension", "s = {y for y in range(3)}")
body("generator", "s = wp.min(y for y in range(3))")
body("yield_from", "yield from a")
body("nonlocal_of_module", "nonlocal_name = x\nb = nonlocal_nam")
body("match", "match i:\n    case 1:\n        pass")
body("annotation_without_value", "y: float")
body("annotated_by_value", "y: 3 = x")
body("element_of_number_assigned", "x[0] = 1.0")
body("component_of_number_assigned", "x.y = 1.0")
body("vector_component_assigned_vector", "v[0] = v")
body("matrix_row_of_wrong_length", "m[0] = v")
body("matrix_product_of_shapes", "w = m * v")
body("dot_of_lengths", "y = wp.dot(v, wp.vec2(x, x))")
body("vector_plus_number", "w = v + x")
body("vector_of_other_dtype", "w = v + wp.vec3d(1.0, 2.0, 3.0)")
body("int_times_float", "y = i * x")
body("float_to_int_parameter", "y = wp.vec3(1.0, 2.0, 3.0)[x]")
body("bool_plus_bool", "y = (x > 0.0) + (x < 1.0)")
body("shift_of_float", "y = x << 2")
body("bits_of_float", "y = x & 1")
body("invert_of_float", "y = ~x")
body("power_of_int_by_float", "y = i ** 0.5")
body("builtin_assigned", "wp.sin = x")
body("constant_assigned_in_place", "VALUES += 1")
body("counter_of_the_module", "COUNTER += 1")
body("range_of_too_many", "for q in range(1, 2, 3, 4):\n    pass")
body("range_keyword", "for q in range(stop=3):\n    pass")
body("len_of_number", "n = len(x)")
body("shape_of_vector", "n = v.shape")
body("tid_keyword", "q = wp.tid(0)")
body("tid_star", "p, *q = wp.tid()")
body("return_in_loop_of_kernel", "for q in range(3):\n    return q")
body("while_of_vector", "while v:\n    pass")
body("slice_of_number", "w = x[0:2]")
body("walrus_in_while", "while (y := x) > 0.0:\n    pass")
body("chained_assignment_of_types", "y = z = x\nz = i")
body("double_star", "y = wp.sin(**v)")
body("starred_argument", "y = wp.min(*v)")
body("cast_of_array", "y = float(a)")
body("vector_from_array", "w = wp.vec3(a)")
body("atomic_keyword", "wp.atomic_add(a, 0, val=x)")
body("atomic_float_index", "wp.atomic_add(a, x, x)")
body("where_of_types", "y = wp.where(i > 0, x, i)")
body("select_condition", "y = wp.select(x, x, x)")
body("static_without_argument", "y = wp.static()")
body("struct_of_no_type", "y = CONFIG(x)")
mistake("async_kernel", "async def k(x: float):\n    pass\n")
mistake("annotation_missing_dtype", "def k(a: wp.array(dtype=str), x: float):\n    a[0] = x\n")
mistake("annotation_is_a_value", "def k(a: 3, x: float):\n    pass\n")
mistake("annotation_is_a_function", "def k(a: np.zeros, x: float):\n    pass\n")

# --- gradient and replay functions ---


def custom(name: str, source: str, call: str = "a[0] = f(x, i)") -> None:
    """A kernel that calls a function with a gradient or replay function of its own."""
    f = "@wp.func\ndef f(x: float, i: int):\n    return x * x\n"
    mistake(name, f"{f}\n{source}\ndef k(a: wp.array(dtype=float), x: float, i: int):\n    {call}\n")


def gradient(name: str, statement: str, params: str = "x: float, i: int, g: float") -> None:
    """A gradient function."""
    custom(name, f"@wp.func_grad(f)\ndef adj_f({params}):\n    {statement}\n")


gradient("gradient_arguments", "wp.adjoint[x] += g", "x: wp.float64, i: int, g: float")
gradient("gradient_argument_count", "wp.adjoint[x] += g", "x: float")
gradient("gradient_result_count", "wp.adjoint[x] += 1.0", "x: float, i: int")
gradient("gradient_result_type", "wp.adjoint[x] += 1.0", "x: float, i: int, g: wp.float64")
gradient("gradient_value_type", "wp.adjoint[x] += wp.float64(g)")
gradient("gradient_returns", "return x * g")
gradient("gradient_of_integer", "wp.adjoint[i] += 1")
gradient("gradient_of_no_argument", "wp.adjoint[g] += 1.0")
gradient("gradient_of_expression", "wp.adjoint[x + 1.0] += 1.0")
custom("adjoint_in_kernel", "", "a[0] = wp.adjoint[x]")
custom("replay_arguments", "@wp.func_replay(f)\ndef again(x: float):\n    return x\n")
custom("replay_type", "@wp.func_replay(f)\ndef again(x: float, i: int):\n    return i\n")
mistake(
    "gradient_of_returned_array",
    "@wp.func\ndef f(a: wp.array2d(dtype=float)):\n    return a[0]\n\n"
    "@wp.func_grad(f)\ndef adj_f(a: wp.array2d(dtype=float), g: wp.array(dtype=float)):\n    pass\n\n"
    "def k(a: wp.array2d(dtype=float)):\n    f(a)[0] = 1.0\n",
)

# --- parameters ---

mistake("no_annotation", "def k(a: wp.array(dtype=float), x):\n    a[0] = x\n")
mistake("wrong_annotation", "def k(a: list, x: float):\n    a[0] = x\n")
mistake("numpy_annotation", "def k(a: np.ndarray, x: float):\n    a[0] = x\n")
mistake("method", "def k(self, a: wp.array(dtype=float)):\n    a[0] = self.x\n")
mistake("text_annotation", 'def k(a: "wp.array(dtype=flaot)", x: float):\n    a[0] = x\n')
mistake("star_arguments", "def k(*xs: float):\n    pass\n")
mistake("func_annotation", "@wp.func\ndef f(x: list):\n    return x\n\ndef k(x: float):\n    f(x)\n")
