class Instruction:
    def __init__(self, **kwargs):
        self.kwargs = kwargs


for _name in ("OptimizerStep", "ReduceGrads", "ReduceTiedGrads", "LoadMicroBatch", "ForwardPass", "BackwardPass",
              "SendActivation", "RecvActivation", "SendGrad", "RecvGrad"):
    globals()[_name] = type(_name, (Instruction,), {})


class TrainSchedule:
    """1F1B."""

    def __init__(self, micro_batches, stages, stage_id):
        self.micro_batches, self.stages, self.stage_id = micro_batches, stages, stage_id

    def __iter__(self):
        first, last = self.stage_id == 0, self.stage_id == self.stages - 1
        forward = [] if first else [RecvActivation(buffer_id=0)]
        forward += [ForwardPass(buffer_id=0)]
        forward += [] if last else [SendActivation(buffer_id=0)]
        backward = [] if last else [RecvGrad(buffer_id=0)]
        backward += [BackwardPass(buffer_id=0)]
        backward += [] if first else [SendGrad(buffer_id=0)]
        ahead = min(self.stages - self.stage_id - 1, self.micro_batches)
        yield forward * ahead
        for _ in range(self.micro_batches - ahead):
            yield forward + backward
        yield backward * ahead
        yield [OptimizerStep()]


class InferenceSchedule:
    __init__ = TrainSchedule.__init__

    def __iter__(self):
        yield [ForwardPass(buffer_id=0)] * self.micro_batches
