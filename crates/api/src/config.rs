//! The controller's config file, `frameworkcontroller.yaml`.
