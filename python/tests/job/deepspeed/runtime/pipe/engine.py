from types import MethodType

from . import schedule


class Grid:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world

    def get_stage_id(self):
        return self.rank

    def get_pipe_parallel_world_size(self):
        return self.world

    def get_data_parallel_rank(self):
        return 0

    get_slice_parallel_rank = get_data_parallel_rank

    def get_data_parallel_world_size(self):
        return 1

    get_slice_parallel_world_size = get_data_parallel_world_size


class PipelineEngine:
    """Calls `compute(kind)` for every forward and backward. `previous` and `following`, sockets to the neighbours in the
    pipeline, carry one byte for each activation and gradient; without them ranks do not wait for each other."""

    def __init__(self, rank, world, micro_batches, compute, previous=None, following=None):
        self.previous, self.following = previous, following
        self.stage_id, self.num_stages, self.micro_batches, self.compute = rank, world, micro_batches, compute
        self.grid, self.global_steps, self.loss = Grid(rank, world), 0, 1.0

    def _exec_forward_pass(self, buffer_id):
        self.compute("forward")
        self.loss *= 0.9

    def _exec_backward_pass(self, buffer_id):
        self.compute("backward")

    def _exec_send_activation(self, buffer_id):
        self._send(self.following)

    def _exec_recv_activation(self, buffer_id):
        self._receive(self.previous)

    def _exec_send_grad(self, buffer_id):
        self._send(self.previous)

    def _exec_recv_grad(self, buffer_id):
        self._receive(self.following)

    def _exec_other(self):
        pass

    @staticmethod
    def _send(neighbour):
        if neighbour is not None:
            neighbour.sendall(b"x")

    @staticmethod
    def _receive(neighbour):
        if neighbour is not None and not neighbour.recv(1):
            raise RuntimeError("a neighbour in the pipeline has ended")

    _INSTRUCTION_MAP = {
        schedule.ForwardPass: _exec_forward_pass,
        schedule.BackwardPass: _exec_backward_pass,
        schedule.SendActivation: _exec_send_activation,
        schedule.RecvActivation: _exec_recv_activation,
        schedule.SendGrad: _exec_send_grad,
        schedule.RecvGrad: _exec_recv_grad,
        **dict.fromkeys((schedule.OptimizerStep, schedule.ReduceGrads, schedule.ReduceTiedGrads,
                         schedule.LoadMicroBatch), _exec_other),
    }

    def _exec_schedule(self, pipe_schedule):
        for step in pipe_schedule:
            for command in step:
                MethodType(self._INSTRUCTION_MAP[type(command)], self)(**command.kwargs)

    def train_batch(self):
        self._exec_schedule(schedule.TrainSchedule(micro_batches=self.micro_batches, stages=self.num_stages,
                                                   stage_id=self.stage_id))
        self.global_steps += 1
        return self.loss

    def eval_batch(self):
        self._exec_schedule(schedule.InferenceSchedule(micro_batches=self.micro_batches, stages=self.num_stages,
                                                       stage_id=self.stage_id))
