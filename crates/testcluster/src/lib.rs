//! A real control plane for tests and the demo: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok.
