"""docs/info-keys.md has every key that MPI 5.0 reserves (A.1.5.6), and each key of a row is in some test program."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).parent.parent.parent
RESERVED = """access_style accumulate_ops accumulate_ordering alloc_shared_noncontig appnum arch argv cb_block_size
cb_buffer_size cb_nodes chunked chunked_item chunked_size collective_buffering command file file_perm filename host
io_node_list ip_address ip_port maxprocs mpi_accumulate_granularity mpi_aint_size mpi_assert_allow_overtaking
mpi_assert_exact_length mpi_assert_memory_alloc_kinds mpi_assert_no_any_source mpi_assert_no_any_tag
mpi_complex4_supported mpi_complex8_supported mpi_complex16_supported mpi_complex32_supported mpi_count_size
mpi_double_complex_supported mpi_double_precision_size mpi_hw_resource_type mpi_initial_errhandler mpi_integer_size
mpi_integer1_supported mpi_integer2_supported mpi_integer4_supported mpi_integer8_supported mpi_integer16_supported
mpi_logical_size mpi_logical1_supported mpi_logical2_supported mpi_logical4_supported mpi_logical8_supported
mpi_logical16_supported mpi_memory_alloc_kinds mpi_minimum_memory_alignment mpi_offset_size mpi_pset_name mpi_size
mpi_real_size mpi_real2_supported mpi_real4_supported mpi_real8_supported mpi_real16_supported nb_proc no_locks
num_io_nodes path same_disp_unit same_size soft striping_factor striping_unit thread_level wdir""".split()


class InfoKeys(unittest.TestCase):
    def rows(self):
        page = (ROOT / "docs/info-keys.md").read_text()
        return re.findall(r"^\| `([^`]+)` \| (\w+) \|", page, re.M)

    def test_every_reserved_key_has_a_row(self):
        self.assertEqual(sorted(set(RESERVED) - {key for key, _ in self.rows()}), [])

    def test_a_row_says_one_of_four_things(self):
        self.assertEqual({word for _, word in self.rows()}, {"honoured", "kept", "told", "ignored"})

    def test_every_key_is_in_a_test_program(self):
        programs = "".join(path.read_text() for path in sorted([*(ROOT / "tests/mpi").glob("*.c"), *(ROOT / "tests/launch").glob("*.c")]))
        self.assertEqual([key for key, _ in self.rows() if f'"{key}"' not in programs], [])


unittest.main()
