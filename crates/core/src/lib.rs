//! What should happen next: the pure core of the controller.
