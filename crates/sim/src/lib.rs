//! A cluster in one thread: API server, kubelet, garbage collector, users, clock and faults. Never shipped.
