//! Privileges, limits, labs and isolation: changes that a run makes to its host, and leaves or undoes.

mod isolate;
mod isolate_ends;
mod lab_flag;
mod lent;
mod limits;
mod privileges;
mod sandbox;
mod time_namespaces;
mod two_hosts;
