//! The command line, plans, manuals, recipes, and how runs end.

mod arguments;
mod ending;
mod manual;
mod newcomer;
mod plans;
mod recipes;
mod shell;
mod start;
mod traffic;
