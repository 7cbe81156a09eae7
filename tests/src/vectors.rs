//! Test vectors: lives of leases, written down by the core's own machine and wires, that every binding
//! must repeat value by value.
//!
//! A vector names the method of a binding that is called, with its arguments, and what it must answer,
//! the exact request included. Stand-ins for the stores give the replies, so that a scenario only says
//! what goes wrong. The files are read by any language: integers that a double could not hold are
//! decimal text, bytes that are no text are `{"hex": …}`, and a duration's unit stands in its key.
//!
//! The keys of an object stand in the order of a binding's arguments, or of the parts of its answer.

mod answers;
mod dynamodb;
mod local;
mod plain;
mod random;
mod redis;
mod refusals;
mod scenario;
mod server;
mod shelf;
mod table;
mod wire;

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::{Map, Value, json};

use tenure_core::io::Outcome;

use self::scenario::Scenario;

/// How to accept what changed.
pub const ACCEPT: &str = "cargo run --package tenure-tests --bin vectors";

/// A file of vectors.
#[derive(Debug)]
pub struct File {
    /// Its name within [`folder`].
    pub name: String,
    /// All of it.
    pub text: String,
}

/// Where the files are.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

/// Every file, made anew.
#[must_use]
pub fn files() -> Vec<File> {
    let mut files = vec![refusals_file()];
    for (wire, scenarios) in [
        ("dynamodb", dynamodb::scenarios()),
        ("local", local::scenarios()),
        ("redis", redis::scenarios()),
    ] {
        files.push(scenarios_file(wire, scenarios));
        files.push(scenarios_file(&format!("{wire}_random"), random::scenarios(wire)));
    }
    files
}

/// Where the first difference is between the files as they are made now and those on disk.
///
/// # Errors
/// The file, the scenario and the step, with both lines.
pub fn compare(made: &[File], folder: &Path) -> Result<(), String> {
    for file in made {
        let kept = fs::read_to_string(folder.join(&file.name)).unwrap_or_default();
        if let Some(difference) = first_difference(&file.text, &kept) {
            return Err(changed(&format!("{}: {difference}", file.name)));
        }
    }
    let found = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in found.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".json") && made.iter().all(|file| file.name != name) {
            return Err(changed(&format!("{name}: nothing makes this file any more")));
        }
    }
    Ok(())
}

/// Writes the files that changed, removes those that nothing makes, and names both.
///
/// # Errors
/// What the file system says.
pub fn accept(made: &[File], folder: &Path) -> io::Result<Vec<String>> {
    fs::create_dir_all(folder)?;
    let mut changed = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".json") && made.iter().all(|file| file.name != name) {
            fs::remove_file(folder.join(&name))?;
            changed.push(name);
        }
    }
    for file in made {
        let path = folder.join(&file.name);
        if fs::read_to_string(&path).ok().as_ref() != Some(&file.text) {
            fs::write(path, &file.text)?;
            changed.push(file.name.clone());
        }
    }
    Ok(changed)
}

fn changed(what: &str) -> String {
    format!("a vector changed: review the difference and run `{ACCEPT}` to accept it\n{what}")
}

/// One step stands on one line, so lines are what is compared.
fn first_difference(made: &str, kept: &str) -> Option<String> {
    let (mut scenario, mut step) = ("", 0_usize);
    let mut kept = kept.lines();
    for line in made.lines() {
        if let Some(head) = line.strip_prefix(HEAD) {
            (scenario, step) = (head.split('"').next().unwrap_or(head), 0);
        } else if line.starts_with(STEP) {
            step += 1;
        }
        match kept.next() {
            Some(other) if other == line => {}
            other => {
                let other = other.unwrap_or("nothing");
                return Some(format!(
                    "scenario \"{scenario}\", step {step}\n  now  {}\n  kept {}",
                    line.trim(),
                    other.trim()
                ));
            }
        }
    }
    kept.next().map(|line| format!("at its end\n  now  nothing\n  kept {}", line.trim()))
}

const HEAD: &str = "  {\"name\":\"";
const STEP: &str = "    {";

fn scenarios_file(name: &str, scenarios: Vec<Scenario>) -> File {
    let used: Vec<(Value, Vec<Value>)> = scenarios.into_iter().map(Scenario::finish).collect();
    let mut text = String::from("{\n");
    let named = named_texts(&used);
    if !named.is_empty() {
        text += "\"texts\": {\n";
        text += &lines("  ", named.iter().map(|(name, text)| format!("{}: {text}", json!(name))));
        text += "},\n";
    }
    text += "\"scenarios\": [\n";
    let scenarios = used.iter().map(|(head, steps)| {
        let head = head.to_string();
        let head = head.strip_suffix('}').unwrap_or(&head);
        format!("{head},\"steps\":[\n{}  ]}}", lines("    ", steps.iter().map(Value::to_string)))
    });
    text += &lines("  ", scenarios);
    text += "]\n}\n";
    File { name: format!("{name}.json"), text }
}

/// Long texts that stand in requests by a name.
fn named_texts(scenarios: &[(Value, Vec<Value>)]) -> Map<String, Value> {
    let all = Value::Array(scenarios.iter().flat_map(|(_, steps)| steps.clone()).collect());
    let all = all.to_string();
    server::SCRIPTS
        .iter()
        .filter(|(name, _)| all.contains(name))
        .map(|(name, text)| ((*name).to_owned(), json!(text)))
        .collect()
}

fn refusals_file() -> File {
    let mut text = String::from("{\n");
    let parts = [
        ("configs", refusals::configs()),
        ("names", refusals::names()),
        ("holders", refusals::holders()),
    ];
    let parts = parts.iter().map(|(name, all)| {
        format!("{}: [\n{}]", json!(name), lines("  ", all.iter().map(Value::to_string)))
    });
    text += &lines("", parts);
    text += "}\n";
    File { name: "refusals.json".into(), text }
}

fn lines(indent: &str, lines: impl Iterator<Item = String>) -> String {
    let lines: Vec<String> = lines.map(|line| format!("{indent}{line}")).collect();
    lines.join(",\n") + if lines.is_empty() { "" } else { "\n" }
}

fn shows_a_record(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused { current: Some(_) } | Outcome::Found { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_its_scenario_and_step() {
        for file in files() {
            assert_eq!(first_difference(&file.text, &file.text), None);
            let Some(at) = file.text.find("\"mono_us\":1") else { continue };
            let mut other = file.text.clone();
            other.replace_range(at + 10..at + 11, "2");
            let difference = first_difference(&file.text, &other).expect("they differ");
            assert!(difference.contains("step 1\n"), "{}: {difference}", file.name);
            assert!(first_difference(&file.text, &format!("{}x", file.text)).is_some());
        }
    }

    #[test]
    fn they_are_made_the_same_each_time() {
        let texts = || files().into_iter().map(|file| file.text).collect::<Vec<_>>();
        assert_eq!(texts(), texts());
    }
}
