class _PipelineStageBase:
    """Calls `compute(letter)` for what it computes. As in PyTorch, the input gradients of the first stage are nothing."""

    dw_builder = None

    def __init__(self, stage_index, num_stages, rank, group_size, compute=lambda letter: None):
        self.stage_index, self.num_stages = stage_index, num_stages
        self.group_rank, self.group_size, self.group = rank, group_size, "pipeline"
        self.is_first, self.is_last = stage_index == 0, stage_index == num_stages - 1
        self.has_backward = True
        self.compute, self.done = compute, []

    def forward_one_chunk(self, fwd_chunk_id, args, kwargs=None, save_forward_output=True):
        self._run("F", fwd_chunk_id)
        return args

    def backward_one_chunk(self, bwd_chunk_id, loss=None, full_backward=True, last_backward=False):
        self._run("B" if full_backward else "I", bwd_chunk_id)

    def backward_weight_one_chunk(self, bwd_chunk_id, last_backward=False):
        self._run("W", bwd_chunk_id)

    def _run(self, letter, microbatch):
        self.done.append((letter, microbatch))
        if not (self.is_first and letter == "I"):
            self.compute(letter)


class PipelineStage(_PipelineStageBase):
    pass
