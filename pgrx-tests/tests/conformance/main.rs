//! What the extension relies on in a store, asked of a real one: STORE says which. What a server cannot do is left out when
//! the server itself has said so, here and now.

mod hostile;
mod keys;
mod objects;
mod trouble;
mod versions;
