//! What users write and read: Framework, completion codes, config file, CRD schema, names and labels.
