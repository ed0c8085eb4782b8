//! Rates on the command line.

use clap::builder::{StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command};
use mpps_plan::values::rate::RateText;
use std::ffi::OsStr;

/// Reads the option's value, and tells what is wrong with it in the words in which the plan does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateParser;

impl TypedValueParser for RateParser {
    type Value = RateText;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<RateText, clap::Error> {
        let text = StringValueParser::new().parse_ref(command, arg, value)?;
        let option = arg.and_then(Arg::get_long).unwrap_or("rate");
        RateText::parse(&text)
            .map_err(|want| clap::Error::raw(ErrorKind::ValueValidation, format!("--{option} '{text}': want {want}")))
    }
}
