"""TERN_CHECK: errors of programs are found and named with their places, correct programs are left alone."""
import os
import pathlib
import tempfile
import unittest

import common
from common import BUILD, mpiexec, run

PROGRAM = os.environ["TERN_CHECK_PROGRAM"]
SOURCES = pathlib.Path(__file__).parent


def build(test, source, folder, *flags):
    program = os.path.join(folder, "program")
    built = run([os.path.join(BUILD, "bin/mpicc"), "-g", "-O0", *flags, str(SOURCES / source), "-o", program])
    test.assertEqual(built.returncode, 0, built.stderr)
    return program


class Check(unittest.TestCase):
    def run_case(self, case, ranks=3, check="1", program=PROGRAM, **variables):
        return mpiexec("-timeout", 30, "-n", ranks, program, case, TERN_CHECK=check, **variables)

    def built(self, source):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return build(self, source, folder.name, "-pthread")

    def differences(self):
        return self.built("differences_program.c")

    def found(self, case, *texts, ends=False, **variables):
        """The case is found with each of the texts, over shared memory and TCP. `ends`: the job ends with an error."""
        for path in ("shm", "tcp"):
            done = self.run_case(case, TERN_PATH=path, **variables)
            for text in texts:
                self.assertRegex(done.stderr, text, path)
            self.assertNotEqual(done.returncode, 124, "the time is up: " + done.stderr)
            self.assertEqual(done.returncode != 0, ends, done.stderr)

    def test_collectives(self):
        self.found("different_collectives", r"do not call the same collective.*MPI_(Barrier|Allreduce) at different_collectives "
                   r"\(check_program\.c:\d+\), and rank \d in MPI_(Barrier|Allreduce) at", ends=True)
        self.found("different_roots", r"roots do not match: rank 0 in MPI_Bcast at .* names rank 0, and rank 1 .* names rank 1",
                   ends=True)
        self.found("different_operators", "operators do not match", ends=True)
        self.found("different_counts", "has 4 x MPI_INT, and rank 1 in .* has 3 x MPI_INT", ends=True)
        self.found("different_types", "has 4 x MPI_INT, and rank 1 in .* has 4 x MPI_FLOAT", ends=True)
        self.found("gather_too_short", "rank 1 in MPI_Gather at .* sends 2 x MPI_INT, and rank 0 in .* receives 1 x MPI_INT",
                   ends=True)
        self.found("alltoallv_pair", "rank 0 in MPI_Alltoallv at .* sends 2 x MPI_INT, and rank 1 in .* receives 1 x MPI_INT",
                   ends=True)
        self.found("blocking_and_not", "do not call the same collective.*MPI_Ibarrier", ends=True)
        self.found("barrier_and_end", "do not call the same collective.*MPI_Finalize", ends=True)
        self.found("split_and_dup", "do not call the same collective.*MPI_Comm_split", ends=True)

    def test_datatypes_of_messages(self):
        self.found("message_type", "rank 0 of the communicator sends 1 x MPI_DOUBLE with tag 5 in MPI_Send at message_type .*"
                   "receives 2 x MPI_INT in MPI_Recv at message_type")
        self.found("message_type_large", "sends 300000 x MPI_FLOAT with tag 5 in MPI_Isend .*receives 300000 x MPI_INT in MPI_Irecv")
        self.found("message_type_struct", "sends 2 elements of several datatypes")

    def test_sessions(self):
        said = self.run_case("two_sessions", ranks=1, program=os.environ["TERN_HANG_PROGRAM"]).stderr
        self.assertRegex(said, r"MPI_Group_union at two_sessions \(hang_program\.c:\d+\) is given objects of two sessions")

    def test_buffers(self):
        self.found("overlapping_receives", "buffer of MPI_Irecv at .* overlaps that of MPI_Irecv at")
        self.found("send_buffer_changed", "has changed the buffer of MPI_Isend at send_buffer_changed")
        self.found("receive_buffer_changed", "has changed the buffer of MPI_Irecv at receive_buffer_changed")

    def test_declarations(self):
        self.found("variable_too_short", r"buffer of MPI_Send at variable_too_short .* ends 16 bytes behind 'values', which is int\[8\]")
        self.found("variable_of_other_type", r"buffer of MPI_Bcast at .* has MPI_INT at byte 0 of 'values', which is float\[8\]")
        self.found("global_of_other_type", "has MPI_INT at byte 0 of 'global_values', which is unsigned int")
        self.found("pointer_to_other_type", r"has MPI_DOUBLE at byte 0 of '\*numbers', which is long")
        self.found("structure_of_other_layout", r"has MPI_DOUBLE at byte 5 of '\*one', which is struct record, with padding there")
        self.found("entries_overlap", "datatype of the receive buffer of MPI_Recv at entries_overlap .* more than once")

    def test_blocks_of_memory(self):
        self.found("block_too_short", r"buffer of MPI_Recv at block_too_short .* ends 16 bytes behind its block of memory, "
                   r"which has (24|40) bytes")

    def test_what_is_left(self):
        self.found("leaks", "1 request is not completed: 1 of MPI_Irecv at leaks",
                   r"3 datatypes are not freed: 3 of MPI_Type_contiguous at leaks \(check_program\.c:\d+\)",
                   "1 communicator is not freed: 1 of MPI_Comm_dup at leaks")
        self.found("receive_freed", "an active receive is freed in MPI_Request_free at receive_freed")
        self.found("unreceived", r"message of MPI_Send at unreceived .* with tag 77 was never received: rank 0 of the job")
        self.found("unreceived_isend", "TERN_CHECK: at MPI_Finalize a message was never received: MPI_COMM_WORLD, source 1, tag 78")

    def test_threads(self):
        self.found("two_threads_wait", "two threads complete one request at the same time")
        self.found("threads_in_barriers", "two threads are in collective operations of one communicator at the same time: "
                   "MPI_Barrier at .*, and MPI_Barrier at")
        self.found("threads_free_communicator", "one thread frees or changes an object while another one uses it: MPI_Recv at "
                   "receive_on_made .*, and MPI_Comm_free at free_soon")
        self.found("threads_write_buffer", "another thread changes the buffer of MPI_Send at send_written")
        self.found("single_with_threads", "the program has 2 threads at MPI_Finalize")
        self.found("other_thread", "MPI_Iprobe at call_mpi .* is called by another thread")

    def test_a_thread_writes_once(self):
        program = self.built("threads_program.c")
        # On a busy machine either thread may come too late.
        for case in ("threads_write_at_once", "threads_write_late"):
            said = ""
            for _ in range(4):
                said += self.run_case(case, program=program).stderr
            self.assertIn("another thread changes the buffer of MPI_Send at send_soon", said, case)

    def test_threads_that_probe(self):
        program = self.built("threads_program.c")
        self.found("threads_probe_one_message", r"the message that MPI_Probe at .* has found was received by another thread in "
                   r"MPI_Recv at .*: MPI_Recv at probe_one \(threads_program\.c:\d+\)", program=program)
        for path in ("shm", "tcp", "udp"):
            done = self.run_case("right_threads_that_probe", program=program, TERN_PATH=path)
            self.assertEqual((done.returncode, done.stderr), (0, ""), path)

    def test_sends_that_rely_on_buffers(self):
        done = mpiexec("-timeout", 4, "-n", 2, PROGRAM, "sends_rely_on_buffers", TERN_CHECK="1")
        self.assertEqual(done.returncode, 124)
        self.assertRegex(done.stderr, "they wait in a circle")

    def test_promises_of_info_keys(self):
        program = self.built("promises_program.c")
        for case, text in (
                ("no_locks", "no_locks was set, but the window is locked"),
                ("same_size", "same_size was set, but the ranks' sizes differ"),
                ("same_disp_unit", "same_disp_unit was set, but the ranks' displacement units differ"),
                ("same_op", "accumulate_ops=same_op was set, but .* meet at rank 0 of the window, bytes 0 to 8"),
                ("same_op_no_op", "accumulate_ops=same_op_no_op was set, but .* bytes 0 to 8"),
                ("memory_kinds", "mpi_assert_memory_alloc_kinds=mpi:alloc_mem was set, but the window's memory"),
                ("mpi_assert_no_any_source", "mpi_assert_no_any_source was set, but the call names MPI_ANY_SOURCE"),
                ("mpi_assert_no_any_tag", "mpi_assert_no_any_tag was set, but the call names MPI_ANY_TAG"),
                ("mpi_assert_exact_length", "mpi_assert_exact_length was set, but a message of 4 bytes")):
            self.found(case, r"TERN_CHECK: MPI_\w+ at \w+ \(promises_program\.c:\d+\): the info key .*" + text, program=program)
            plain = self.run_case(case, check="0", program=program)
            self.assertEqual((plain.returncode, plain.stderr), (0, ""), case)
        right = self.run_case("right_promises", program=program)
        self.assertEqual((right.returncode, right.stderr), (0, ""))

    def test_correct_programs(self):
        for case in ("right_messages", "right_halo", "right_collectives", "right_declarations", "right_blocks",
                     "right_threads"):
            for path in ("shm", "tcp", "udp"):
                done = self.run_case(case, ranks=4, check="2", TERN_PATH=path)
                self.assertEqual((done.returncode, done.stderr), (0, ""), f"{case} over {path}")
        done = self.run_case("right_handles", check="2", program=self.built("handles_program.c"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_spawned_programs(self):
        # The parents' communicator is not the program's to free.
        done = mpiexec("-timeout", 30, "-n", 1, os.environ["TERN_START_PROGRAM"], "parent", TERN_CHECK="2")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "0 child\n", ""))

    def test_sessions_go_on_after_finalize(self):
        """A rank in MPI_Finalize may still receive in a session."""
        for _ in range(3):
            done = mpiexec("-timeout", 30, "-n", 4, os.path.join(BUILD, "tests/mpi/session_basic"), TERN_CHECK="2")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ok\n", ""))
        program = self.built("sessions_program.c")
        for path in ("shm", "tcp"):
            done = mpiexec("-timeout", 30, "-n", 2, program, TERN_CHECK="2", TERN_PATH=path)
            self.assertEqual((done.returncode, done.stderr), (0, ""), path)
            done = mpiexec("-timeout", 30, "-n", 2, program, TERN_PATH=path)
            self.assertEqual((done.returncode, done.stderr), (0, ""), path)
        self.found("leak", r"1 communicator is not freed", r"never received: MPI_COMM_WORLD, source \d, tag 3, 4 bytes",
                   program=program)

    def test_reductions_beyond_the_standard(self):
        self.found("reductions_of_text", r"MPI_SUM of MPI_CHAR in MPI_Allreduce at reductions_of_text .* is beyond the standard",
                   r"MPI_LAND of MPI_AINT in MPI_Allreduce at", program=self.built("handles_program.c"))

    def test_a_finding_may_end_the_job(self):
        done = self.run_case("message_type", check="2")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("TERN_CHECK=2", done.stderr)

    def test_nothing_is_said_without_it(self):
        self.assertEqual(self.run_case("message_type", check="0").stderr, "")

    def test_different_collectives_by_messages(self):
        # The rank that notices names its call, mpiexec those of the others.
        done = self.run_case("barrier_and_bcast", ranks=2, check="0", program=self.differences(), TERN_PATH="tcp")
        self.assertNotIn(done.returncode, (0, 124), done.stderr)
        self.assertIn("MPI_Barrier: rank 1 of the communicator sends more than the 0 bytes that are expected", done.stderr)
        self.assertIn("rank 0 (", done.stderr)
        self.assertIn("since the ranks do not call the same collective operations", done.stderr)
        self.assertRegex(done.stderr, r"rank 1: (waiting|was) in MPI_Recv, called at barrier_and_bcast")

    def test_what_is_seen_without_it(self):
        def said(case, program=PROGRAM):
            done = self.run_case(case, ranks=2, check="0", program=program)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stderr
        differences = self.differences()
        self.assertIn("warning: at MPI_Finalize 1 request is not completed", said("leaks"))
        self.assertIn("rank 0] warning: at MPI_Finalize a message was never received: MPI_COMM_WORLD, source 1, tag 77",
                      said("unreceived"))
        self.assertRegex(said("reduce_of_one", differences), r"rank 0\] warning: at MPI_Finalize rank 1 has called a collective "
                         "operation on MPI_COMM_WORLD that this rank has not called")
        self.assertIn("MPI_Finalize is called by another thread than MPI_Init", said("other_thread_finalizes", differences))
        self.assertIn("two threads are in collective operations of 'MPI_COMM_WORLD' at the same time",
                      said("threads_meet_in_barriers", differences))
        for case in ("right_messages", "right_halo", "right_collectives", "right_threads"):
            self.assertEqual(said(case), "", case)
        self.assertEqual(self.run_case("unreceived", check="0", TERN_LOG="error").stderr, "")


if __name__ == "__main__":
    common.main()
