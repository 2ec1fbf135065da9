#pragma once

/// A stand-in for libcuda.so.1, to test what loads it: a GPU that does what is asked of its streams when a test says
/// so. Functions of CUDA have CUDA's names; these control it.
extern "C" {
/// As at first: with a context, no work waiting, nothing failing.
void fake_cuda_reset();
/// Whether the calling thread has a context.
void fake_cuda_set_context(int has_context);
/// What writes in streams answer from now on; 0: they are taken.
void fake_cuda_set_write_result(int result);
/// What filling memory answers from now on.
void fake_cuda_set_fill_result(int result);
void fake_cuda_set_capturing(int is_capturing);
/// What the question for it answers from now on.
void fake_cuda_set_capture_result(int result);
/// 1: work is done as soon as it is asked for.
void fake_cuda_set_idle(int is_idle);
/// Does the work that waits, at most so much of it, in the order in which it was asked for.
void fake_cuda_work(int items);
/// Work that waits, and the number of calls that wrote and filled so far.
int fake_cuda_waiting();
int fake_cuda_writes();
int fake_cuda_fills();
}
