"""Lengths of documents from the arguments of an iteration."""

import unittest
import unittest.mock

from lowgear.adapters.inputs import documents_in


class Tensor:
    """As much of a tensor on the CPU as is used, of lists."""

    is_cuda = False

    def __init__(self, values):
        self.values = values

    @property
    def shape(self):
        return (len(self.values), len(self.values[0])) if self.dim() == 2 else (len(self.values),)

    def dim(self):
        return 2 if self.values and isinstance(self.values[0], list) else 1

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return (Tensor(row) for row in self.values)

    def __eq__(self, other):
        return Tensor([value == other for value in self.values])

    def chunk(self, count):
        size = len(self.values) // count
        return [Tensor(self.values[i:i + size]) for i in range(0, len(self.values), size)]

    def sum(self, dimension):
        assert dimension == 1
        return Tensor([sum(row) for row in self.values])

    def diff(self):
        return Tensor([after - before for before, after in zip(self.values, self.values[1:])])

    def nonzero(self):
        return Tensor([[at] for at, value in enumerate(self.values) if value])

    def flatten(self):
        return Tensor([value for row in self.values for value in row])

    def tolist(self):
        return self.values


class Inputs(unittest.TestCase):
    def test_documents_begin_at_position_zero_and_with_each_row(self):
        positions = Tensor([[0, 1, 2, 0, 1, 0], [4, 5, 6, 7, 0, 1], [0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 2, 3]])
        self.assertEqual(documents_in({"position_ids": positions}, 2), [[3, 2, 1, 4, 2], [6, 1, 1, 4]])

    def test_masks_and_cumulative_lengths(self):
        self.assertEqual(documents_in({"attention_mask": Tensor([[1, 1, 0], [1, 0, 0]])}, 2), [[2], [1]])
        self.assertEqual(documents_in({"cu_seqlens": Tensor([[0, 3, 8, 8], [0, 8, 8, 8]])}, 2), [[3, 5], [8]])

    def test_what_does_not_show_lengths_is_left_alone(self):
        for arguments in ({}, {"attention_mask": None}, {"attention_mask": Tensor([1, 2])}, {"position_ids": [[0]]},
                          {"position_ids": Tensor([[0], [0], [0]])}):
            self.assertIsNone(documents_in(arguments, 2))

    def test_a_tensor_on_a_gpu_is_not_copied(self):
        on_gpu = unittest.mock.Mock(is_cuda=True)
        with unittest.mock.patch("lowgear.adapters.inputs.say_once") as say:
            self.assertIsNone(documents_in({"position_ids": on_gpu}, 2))
        self.assertIn("tell them: lowgear.tell_lengths", say.call_args[0][0])
        self.assertEqual(on_gpu.mock_calls, [])


if __name__ == "__main__":
    unittest.main()
