//! Ten questions and what the model answers, for a person to read.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{Programs, output};
use crate::command;

const CODING: [&str; 10] = [
    "Write a Python function that checks whether a string is a palindrome.",
    "Write a C function that reverses a singly linked list in place.",
    "What is the difference between a process and a thread? Answer briefly.",
    "Write a SQL query that finds the second highest salary in a table employees(id, salary).",
    "Write a Rust function that returns the n-th Fibonacci number without recursion.",
    "What does this Python expression give, and why: [x * x for x in range(5) if x % 2]?",
    "Find the bug: for (int i = 0; i <= n; i++) sum += a[i]; where a has n elements.",
    "Write a bash one-liner that counts the lines of all .py files below the current folder.",
    "Explain the time complexity of binary search in two sentences.",
    "Write a JavaScript function that debounces another function.",
];

const GENERAL: [&str; 10] = [
    "What is the capital of France?",
    "Name three primary colours.",
    "Why is the sky blue? Answer in two sentences.",
    "Write a short poem about the sea.",
    "What is 7 times 8?",
    "Translate into French: Good morning, my friend.",
    "Give me a recipe for pancakes.",
    "Who wrote Romeo and Juliet?",
    "What is the difference between a cat and a dog?",
    "Name five animals that live in the sea.",
];

/// Asks the model, and returns the file with its answers.
pub fn write(programs: &Programs, name: &str, model: &Path) -> Result<PathBuf> {
    let mut text = format!("# {name}\n");
    for question in questions(name) {
        let mut ask = Command::new(&programs.ours);
        ask.arg("-m").arg(model).args(["-p", question, "-q"]);
        ask.args(["-n", "256", "-t", &programs.threads.to_string()]);
        let answer = command::read(&mut ask)?;
        let answer = String::from_utf8_lossy(&answer);
        write!(text, "\n## {question}\n\n{}\n", answer.trim()).expect("a string takes all");
    }
    let file = output()?.join(format!("{name}.md"));
    fs::write(&file, text)?;
    Ok(file)
}

/// Models of Qwen here are made for code.
fn questions(name: &str) -> &'static [&'static str] {
    match name.starts_with("qwen2.5") {
        true => &CODING,
        false => &GENERAL,
    }
}
