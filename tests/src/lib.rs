//! What the tests share: where the models are, how the binary is run.
