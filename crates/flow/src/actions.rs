//! The actions of a rule.

use crate::parse::{RuleError, Words, wrong};
use crate::value::quoted;
use crate::{Action, Attributes};

type Result<T> = std::result::Result<T, RuleError>;

/// Most queues that one `rss` names, as in testpmd.
const MOST_QUEUES: usize = 128;

/// Reads the actions, up to their `end`, and checks that they go together.
pub(crate) fn parse(words: &mut Words<'_>, attributes: &Attributes) -> Result<Vec<Action>> {
    let mut actions: Vec<Action> = Vec::new();
    loop {
        let after = actions.last().map_or("actions", |_| "/");
        let word = words.expect(after, "an action, or 'end'")?;
        if word == "end" {
            break;
        }
        let action = action(word, words)?;
        check(&actions, &action, attributes)?;
        actions.push(action);
    }
    if actions.is_empty() {
        return wrong("no action: want 'queue index N', rss, drop, 'mark id N', count or passthru after 'actions'");
    }
    Ok(actions)
}

fn action(word: &str, words: &mut Words<'_>) -> Result<Action> {
    let action = match word {
        "queue" => {
            argument(words, "queue", "index")?;
            Action::Queue(words.number("queue index", u16::MAX.into())? as u16)
        }
        "mark" => {
            argument(words, "mark", "id")?;
            Action::Mark(words.number("mark id", u32::MAX.into())? as u32)
        }
        // The action `rss` reads its own '/'.
        "rss" => return rss(words),
        "drop" => Action::Drop,
        "count" => Action::Count,
        "passthru" => Action::Passthru,
        other => {
            return wrong(format!(
                "{} is no action that is known: want queue, rss, drop, mark, count or passthru",
                quoted(other)
            ));
        }
    };
    match words.expect(word, "'/'")? {
        "/" => Ok(action),
        other => wrong(format!("{} after '{action}': want '/'", quoted(other))),
    }
}

/// The one argument that an action has.
fn argument(words: &mut Words<'_>, action: &str, name: &str) -> Result<()> {
    let want = format!("'{action} {name} N'");
    match words.expect(action, &want)? {
        word if word == name => Ok(()),
        other => wrong(format!("{} after '{action}': want {want}", quoted(other))),
    }
}

/// `rss`, then `queues 0 1 end` or nothing, then `/`.
fn rss(words: &mut Words<'_>) -> Result<Action> {
    let mut queues = Vec::new();
    loop {
        match words.expect("rss", "'queues 0 1 end' or '/'")? {
            "/" => return Ok(Action::Rss(queues)),
            "queues" if queues.is_empty() => queues = queue_list(words)?,
            "queues" => return wrong("'rss queues' is given twice: want it once"),
            word @ ("types" | "func" | "level" | "key" | "key_len") => {
                return wrong(format!(
                    "'rss {word}': what is hashed is the port's to say: want 'rss' or 'rss queues 0 1 end'"
                ));
            }
            other => return wrong(format!("{} after 'rss': want 'queues 0 1 end' or '/'", quoted(other))),
        }
    }
}

fn queue_list(words: &mut Words<'_>) -> Result<Vec<u16>> {
    let mut queues = Vec::new();
    loop {
        let word = words.expect("rss queues", "queues, and 'end'")?;
        if word == "end" {
            break;
        }
        let queue = crate::value::number(word, u16::MAX.into());
        let queue = queue.or_else(|want| wrong(format!("rss queues {}: {want}, or 'end'", quoted(word))))?;
        if queues.len() == MOST_QUEUES {
            return wrong(format!("rss queues: more than {MOST_QUEUES}: want 'end' before"));
        }
        queues.push(queue as u16);
    }
    if queues.is_empty() {
        return wrong("rss queues: none is named: want 'rss queues 0 1 end', or 'rss' for all");
    }
    Ok(queues)
}

/// Returns whether an action decides the packet's fate. A rule has at most one such action.
fn is_fate(action: &Action) -> bool {
    matches!(
        action,
        Action::Queue(_) | Action::Rss(_) | Action::Drop | Action::Passthru
    )
}

fn check(before: &[Action], action: &Action, attributes: &Attributes) -> Result<()> {
    if let Some(other) = before.iter().find(|other| is_fate(other) && is_fate(action)) {
        return wrong(format!(
            "'{action}' beside '{other}': each says what becomes of the packet: want one of them"
        ));
    }
    let same = |other: &&Action| std::mem::discriminant(*other) == std::mem::discriminant(action);
    if let Some(other) = before.iter().find(same) {
        return wrong(format!("'{action}' beside '{other}': want one of them"));
    }
    let of_receivers = matches!(action, Action::Queue(_) | Action::Rss(_) | Action::Mark(_));
    if attributes.egress && of_receivers {
        return wrong(format!(
            "'{action}' with egress: it is for packets that come in: want ingress"
        ));
    }
    Ok(())
}
