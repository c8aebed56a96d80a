"""Names and argument names of what programs call on the host are those of Warp's API."""

from __future__ import annotations

import functools
import inspect
import re

import pytest

import warp_like as wp

NAMES = """
    launch(kernel, dim, inputs, outputs, adj_inputs, adj_outputs, device, stream, adjoint, record_tape, record_cmd,
        max_blocks, block_dim)
    overload(kernel, arg_types) map(func, *inputs, out, return_kernel, block_dim, device)
    from_ptr(ptr, length, dtype, shape, device)
    zeros(shape, dtype, device, requires_grad, pinned, retain_grad, **kwargs)
    zeros_like(src, device, requires_grad, pinned, retain_grad)
    ones(shape, dtype, device, requires_grad, pinned, retain_grad, **kwargs)
    ones_like(src, device, requires_grad, pinned, retain_grad)
    full(shape, value, dtype, device, requires_grad, pinned, retain_grad, **kwargs)
    full_like(src, value, device, requires_grad, pinned, retain_grad)
    empty(shape, dtype, device, requires_grad, pinned, retain_grad, **kwargs)
    empty_like(src, device, requires_grad, pinned, retain_grad) clone(src, device, requires_grad, pinned, retain_grad)
    copy(dest, src, dest_offset, src_offset, count, stream) func_grad(forward_fn) func_replay(forward_fn)
    func_native(snippet, adj_snippet, replay_snippet) constant(x) get_module(name) set_module_options(options, module)
    get_module_options(module) force_load(device, modules, block_dim, max_workers)
    load_module(module, device, recursive, block_dim, max_workers)
    compile_aot_module(module, device, arch, module_dir, use_ptx, strip_hash)
    load_aot_module(module, device, arch, module_dir, use_ptx, strip_hash) get_device(ident) set_device(ident)
    get_devices() get_preferred_device() is_device_available(device) get_cuda_device(ordinal) get_cuda_devices()
    map_cuda_device(alias, context) unmap_cuda_device(alias) can_access(device, resource) synchronize_device(device)
    ScopedDevice(device) ScopedStream(stream, sync_enter, sync_exit) get_stream(device) set_stream(stream, device, sync)
    synchronize_stream(stream_or_device) synchronize_event(event)
    get_event_elapsed_time(start_event, end_event, synchronize) is_mempool_supported(device) is_mempool_enabled(device)
    set_mempool_enabled(device, enable) set_mempool_release_threshold(device, threshold)
    get_mempool_release_threshold(device) is_mempool_access_supported(target_device, peer_device)
    is_mempool_access_enabled(target_device, peer_device) set_mempool_access_enabled(target_device, peer_device, enable)
    is_peer_access_supported(target_device, peer_device) is_peer_access_enabled(target_device, peer_device)
    set_peer_access_enabled(target_device, peer_device, enable) set_cuda_allocator(allocator)
    set_device_allocator(device, allocator) get_device_allocator(device)
    from_ipc_handle(handle, dtype, shape, strides, device) event_from_ipc_handle(handle, device)
    capture_end(device, stream) capture_launch(graph, stream) capture_if(condition, on_true, on_false, stream, **kwargs)
    capture_while(condition, while_body, stream, **kwargs) capture_debug_dot_print(graph, path, verbose)
    ScopedTimer(name, active, print, detailed, dict, use_nvtx, color, synchronize, cuda_filter, report_func, skip_tape)
    timing_begin(cuda_filter, synchronize) timing_end(synchronize) timing_print(results, indent)
    ScopedMemoryTracker(name, active, print, report_func) print_memory_report(file, sort, max_items)
    from_numpy(arr, dtype, shape, device, requires_grad, retain_grad)
    from_torch(t, dtype, requires_grad, grad, return_ctype, retain_grad) to_torch(a, requires_grad)
    from_jax(jax_array, dtype) to_jax(warp_array) from_paddle(t, dtype, requires_grad, grad, return_ctype, retain_grad)
    to_paddle(a, requires_grad) from_dlpack(source, dtype, hint) to_dlpack(wp_array) dtype_from_numpy(numpy_dtype)
    dtype_to_numpy(warp_dtype) dtype_from_torch(torch_dtype) dtype_to_torch(warp_dtype) dtype_from_jax(jax_dtype)
    dtype_to_jax(warp_dtype) dtype_from_paddle(paddle_dtype) dtype_to_paddle(warp_dtype) device_from_torch(torch_device)
    device_to_torch(warp_device) device_from_jax(jax_device) device_to_jax(warp_device)
    device_from_paddle(paddle_device) device_to_paddle(warp_device) array.assign(src) array.contiguous()
    array.fill_(value) array.flatten() array.list() array.to(device, requires_grad) array.transpose(axes)
    array.view(dtype) array.zero_() Launch.set_dim(dim) Launch.set_params(values)
    Launch.set_param_at_index(index, value, adjoint) Launch.set_param_by_name(name, value, adjoint)
    Launch.launch(stream) Tape.backward(loss, grads) Tape.get_adjoint(a) Tape.record_func(backward, arrays)
    Tape.record_launch(kernel, dim, max_blocks, inputs, outputs, device, block_dim, metadata)
    Tape.record_scope_begin(scope_name, metadata) Tape.record_scope_end(remove_scope_if_empty) Tape.reset()
    Tape.visualize(filename, simplify_graph, hide_readonly_arrays, array_labels, choose_longest_node_name,
        ignore_graph_scopes, track_inputs, track_outputs, track_input_names, track_output_names, graph_direction)
    Tape.zero()
    autograd.gradcheck(function, dim, inputs, outputs, eps, atol, rtol, raise_exception, input_output_mask, device,
        max_blocks, block_dim, max_inputs_per_var, max_outputs_per_var, plot_relative_error, plot_absolute_error,
        show_summary, restore_inputs)
    autograd.gradcheck_tape(tape, eps, atol, rtol, raise_exception, input_output_masks, blacklist_kernels,
        whitelist_kernels, max_inputs_per_var, max_outputs_per_var, plot_relative_error, plot_absolute_error,
        show_summary, reverse_launches, skip_to_launch_index)
    autograd.jacobian_plot(jacobians, kernel, inputs, show_plot, show_colorbar, scale_colors_per_submatrix, title,
        colormap, log_scale)
    utils.array_cast(in_array, out_array, count) utils.array_inner(a, b, out, count, axis)
    utils.array_scan(in_array, out_array, inclusive) utils.array_sum(values, out, value_count, axis)
    utils.radix_sort_pairs(keys, values, count, begin_bit, end_bit)
    utils.segmented_sort_pairs(keys, values, count, segment_start_indices, segment_end_indices)
    utils.runlength_encode(values, run_values, run_lengths, run_count, value_count) mat33.get_row(r) mat33.get_col(c)
    mat33.set_row(r, v) mat33.set_col(c, v) indexedarray(data, indices, dtype, ndim)
    jax_kernel(kernel, num_outputs, vmap_method, launch_dims, output_dims, in_out_argnames, module_preload_mode,
        enable_backward, has_side_effect, block_dim)
    jax_callable(func, num_outputs, graph_mode, vmap_method, output_dims, in_out_argnames, stage_in_argnames,
        stage_out_argnames, graph_cache_max, module_preload_mode, has_side_effect)
    ScopedMempool(device, enable) ScopedMempoolAccess(target_device, peer_device, enable)
    ScopedPeerAccess(target_device, peer_device, enable) ScopedLogLevel(log_level) ScopedLogger(logger)
    set_logger(logger) ScopedMemoryTracker.report(file, sort, max_items)
"""
"""What a call may give by position, in this order; a function may take more after it."""

FORMS = {name: params.split() for name, params in re.findall(r"([\w.]+)\(([^)]*)\)", NAMES)}


@pytest.mark.parametrize("name", FORMS)
def test_arguments(name: str) -> None:
    wanted = [param.strip(",*") for param in FORMS[name]]
    called = functools.reduce(getattr, name.split("."), wp)
    found = [name for name in inspect.signature(called).parameters if name != "self"]
    assert found[: len(wanted)] == wanted


def test_every_argument_can_be_given_by_name() -> None:
    a = wp.zeros(shape=6, dtype=wp.float32)
    assert a.reshape(shape=(2, 3)).shape == (2, 3)
    assert wp.constant(x=3) == 3
    assert wp.uint8(x=300) == 44
    m = wp.mat22(1.0, 2.0, 3.0, 4.0)
    m.set_col(c=0, v=m.get_row(r=1))
    assert m == wp.mat22(3.0, 2.0, 4.0, 4.0)
    assert wp.is_device_available(device="cpu")
    assert wp.DeviceLike is not None
