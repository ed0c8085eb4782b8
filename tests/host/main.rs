//! What a run asks of its host, changes there and leaves: privileges, limits, labs, isolation.

mod isolate;
mod isolate_ends;
mod lab_flag;
mod lent;
mod limits;
mod privileges;
mod sandbox;
mod time_namespaces;
mod two_hosts;
