"""What bench/papers says of each paper beside the numbers: what it builds and where that is in the source, the script of its experiments,
and what is not repeated. `missing`: (what, why)."""

PAPERS = [
    {
        "id": "customised", "recording": "testbed", "machine": "draco-ddr.toml", "command": "bench/testbed",
        "title": "Customised rendezvous protocols",
        "citation": "M. Small, X. Yuan: Maximizing MPI point-to-point communication performance on RDMA-enabled clusters with customized "
                    "protocols. ICS 2009.",
        "mechanisms": [
            ("Table 1: protocol by size and by who is there first", "src/p2p/protocols/protocol.h"),
            ("RECEIVER_READY: receives are announced to their senders", "src/p2p/protocols/announcements.h"),
            ("RECV_RNDV: the sender uses an announcement, early or crossing its message", "src/p2p/protocols/announced_send.h"),
            ("SEND_RNDV by RDMA write or read", "src/p2p/protocols/rendezvous_send.h, src/p2p/protocols/rendezvous_receive.h"),
            ("HYBRID: copied, fetched by the receiver, released along with another message", "src/p2p/protocols/hybrid.h"),
            ("the same when the sender reaches MPI_Wait before the receiver comes", "src/p2p/protocols/copy_out.h"),
            ("which message an announcement is for: bounded memory for any number of tags", "src/p2p/matching/sent_log.h"),
            ("FIN elimination by the last byte, only where the user vouches for ordered writes", "src/p2p/protocols/announcements.h"),
            ("counters by protocol and arrival order (TERN_RENDEZVOUS_STATISTICS)", "src/p2p/report.cc"),
        ],
        "applications": "bench/applications --npb FOLDER --only table3",
        "missing": [("Table 3: SP.C and BT.C on 16 ranks", "a step of class C takes minutes of a core")],
    },
    {
        "id": "tupleq", "recording": "tupleq", "machine": "connectx.toml", "command": "bench/tupleq",
        "title": "TupleQ", "citation": "M. Koop, J. Sridhar, D. K. Panda: TupleQ: fully-asynchronous and zero-copy MPI over InfiniBand. 2009.",
        "mechanisms": [
            ("one receive queue for each (communicator, rank, tag), addressed by XRC",
             "src/p2p/tuples/tuples.h, src/fabric/rdma/tuples/rdma_tuples.h"),
            ("queues are made on demand, their numbers kept by the sender", "src/p2p/tuples/tuple_sender.cc"),
            ("wildcards: queues stop, everything in flight is received in order, queues come back", "src/p2p/tuples/tuple_stop.cc"),
            ("TupleQ-copy: short messages are copied by the sender", "src/p2p/tuples/tuple_sender.cc"),
            ("assertions of a communicator rule wildcards out", "src/p2p/message_hints.h"),
            ("a connection that fails is made anew without loss", "src/p2p/tuples/tuple_sender.cc, src/p2p/tuples/tuple_receiver.cc"),
        ],
        "applications": "bench/applications --npb FOLDER --only figure6",
        "missing": [("Figure 6: class C", "computation takes minutes of a core for a step")],
    },
    {
        "id": "ethernet", "recording": "gigabit", "applications": "bench/applications --npb FOLDER --only ethernet,hpl",
        "machine": "gigabit.toml", "beside": ["myrinet.toml"], "command": "bench/gigabit",
        "title": "High-performance MPI for Ethernet",
        "citation": "S. Majumder: High performance MPI libraries for Ethernet. Rice University, 2004.",
        "mechanisms": [
            ("paths behind one interface, a scheduler that survives the loss of one",
             "src/fabric/path.h, src/fabric/scheduler/path_scheduler.h"),
            ("UDP path: fragments, windows, acknowledgements and negative ones, CRC-32", "src/fabric/udp/fragment_channel.h"),
            ("TCP path: connections on demand, eager and request, read straight into the user's buffer, reconnection",
             "src/fabric/tcp/tcp_path.h"),
            ("LA-MPI-ED: an event thread beside the application", "src/progress/event_thread.h, src/progress/event_handler.h"),
            ("the same as it was, woken for every arrival: TERN_PROGRESS=event-driven", "src/progress/event_policy.h"),
            ("end-to-end CRC over TCP", "src/fabric/tcp/inbound.h"),
        ],
        "missing": [
            ("Figures 5.1 to 5.3: MPICH-GM", "another library"),
        ],
    },
    {
        "id": "channels", "recording": "channels", "machine": "connect-ib.toml", "command": "bench/channels --ranks 16,64",
        "title": "Adaptive transport selection",
        "citation": "M. Takagi et al.: Adaptive transport service selection for MPI with InfiniBand network. ExaMPI 2015.",
        "mechanisms": [
            ("channels: DC-sendrecv, DC-RDMA, RC-RDMA (and RC, UD, XRC)", "src/fabric/rdma/channels/channel.h"),
            ("rings of 16 entries, polled, with credit", "src/fabric/rdma/channels/ring.h"),
            ("FIND_MAP with the parameters of Table 2", "src/fabric/rdma/channels/find_map.h"),
            ("the switch of channels (J1 to J5), without loss or reordering", "src/fabric/rdma/channels/channel_switches.h"),
            ("time windows (T1 to T4) in the background", "src/fabric/rdma/channels/channel_policy.h"),
        ],
        "missing": [("Figures 7 to 9 (parameters)", "Table 2 is compared by bench/tune --machine connect-ib.toml, not drawn")],
    },
    {
        "id": "locks", "recording": "locks", "machine": "infinihost.toml", "command": "bench/locks",
        "title": "Passive one-sided synchronisation",
        "citation": "W. Jiang et al.: Efficient implementation of MPI-2 passive one-sided communication on InfiniBand clusters. 2004.",
        "mechanisms": [
            ("dedicated and event-driven thread at the target", "src/rma/lock_queue.h"),
            ("Test-and-Set by compare-and-swap with exponential back-off; MCS queue", "src/rma/remote_word_locks.h"),
            ("a lock that is taken with the first operation, or at once", "src/rma/window.h"),
        ],
        "missing": [],
    },
]
