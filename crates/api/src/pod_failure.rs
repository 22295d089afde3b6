//! `podFailureSpec`: how failed Pods are classified into completion codes. Data only; matching is the core's.
