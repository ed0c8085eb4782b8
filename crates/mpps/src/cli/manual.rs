//! The arguments of `man` and `completions`: what packages install beside the program, made from the same definitions.

use super::Cli;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `man`.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The command to print the page of: sendrecv, lab up [default: the program]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands into DIR: mpps.1, mpps-sendrecv.1, …
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// `completions`.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// A shell.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    /// The script that this shell reads.
    pub(crate) fn completions(self) -> Vec<u8> {
        let shell = match self {
            Self::Bash => clap_complete::Shell::Bash,
            Self::Zsh => clap_complete::Shell::Zsh,
            Self::Fish => clap_complete::Shell::Fish,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::definition(), "mpps", &mut script);
        script
    }
}
