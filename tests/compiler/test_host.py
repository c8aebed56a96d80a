"""What stands for this machine in cache keys."""

import warp_like as wp


def test_the_key_of_caches_outside():
    key = wp.get_cpu_kernel_cache_key()
    assert key == wp.get_cpu_kernel_cache_key(cpu_compiler_flags="-O3")
    assert key.isalnum()


def test_names_that_do_nothing():
    assert wp.clear_lto_cache() is None
    assert wp.clear_jax_callable_graph_cache() is None
    assert wp.clear_jax_callable_graph_cache(lambda x: x) is None
