//! FrameworkController: wiring of the program.
