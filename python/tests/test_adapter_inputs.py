"""Lengths of documents from the arguments of an iteration."""

import unittest
import unittest.mock

from lowgear.adapters.inputs import documents_in
from stand_ins import Tensor


class Inputs(unittest.TestCase):
    def test_documents_begin_at_position_zero_and_with_each_row(self):
        positions = Tensor([[0, 1, 2, 0, 1, 0], [4, 5, 6, 7, 0, 1], [0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 2, 3]])
        self.assertEqual(documents_in({"position_ids": positions}, 2, None), [[3, 2, 1, 4, 2], [6, 1, 1, 4]])

    def test_masks_and_cumulative_lengths(self):
        self.assertEqual(documents_in({"attention_mask": Tensor([[1, 1, 0], [1, 0, 0]])}, 2, None), [[2], [1]])
        self.assertEqual(documents_in({"attention_mask": Tensor([[True, True], [False, True]])}, 1, None), [[2, 1]])
        self.assertEqual(documents_in({"cu_seqlens": Tensor([[0, 3, 8, 8], [0, 8, 8, 8]])}, 2, None), [[3, 5], [8]])

    def test_what_does_not_show_lengths_is_left_alone(self):
        for arguments in ({}, {"attention_mask": None}, {"attention_mask": Tensor([1, 2])}, {"position_ids": [[0]]},
                          {"position_ids": Tensor([[0], [0], [0]])}):
            self.assertIsNone(documents_in(arguments, 2, None))

    def test_a_mask_of_other_values_shows_no_lengths(self):
        for mask in ([[1, 1, 2, 2], [1, 2, 3, 0]], [[0.0, float("-inf")], [0.0, 0.0]]):
            said = []
            self.assertIsNone(documents_in({"attention_mask": Tensor(mask)}, 2, said.append))
            self.assertIn("an attention_mask of other values than 0 and 1; tell them", said[0])

    def test_a_tensor_on_a_gpu_is_not_copied(self):
        on_gpu = unittest.mock.Mock(is_cuda=True)
        said = []
        self.assertIsNone(documents_in({"position_ids": on_gpu}, 2, said.append))
        self.assertIn("tell them: lowgear.tell_lengths", said[0])
        self.assertEqual(on_gpu.mock_calls, [])


if __name__ == "__main__":
    unittest.main()
