//! `${NAME}` and `${NAME:-default}` in strings of the job file.
//!
//! `$${` stands for a literal `${`. As in a shell, the default is taken if the variable is unset or empty. Replacement is
//! done once: what a variable holds is never looked into.

/// Looks a variable up.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The text with every variable replaced, or what is wrong with it and what to do (never a variable's content).
pub fn replace(text: &str, lookup: Lookup<'_>) -> Result<String, (String, String)> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$${") {
            out.push_str("${");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("${") {
            let end = after.find('}').ok_or_else(|| unclosed(rest))?;
            out.push_str(&value_of(&after[..end], lookup)?);
            rest = &after[end + 1..];
        } else {
            out.push('$');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn value_of(reference: &str, lookup: Lookup<'_>) -> Result<String, (String, String)> {
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    if !is_name(name) {
        return Err((
            format!("'${{{reference}}}' doesn't name an environment variable"),
            "write ${NAME} or ${NAME:-default}; $${ stands for a literal ${".to_owned(),
        ));
    }
    match (lookup(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => {
            Err((format!("the environment variable {name} is not set"), format!("set {name}, or give a default: ${{{name}:-…}}")))
        }
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_') && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn unclosed(text: &str) -> (String, String) {
    let shown: String = text.chars().take(20).collect();
    (format!("'{shown}' opens a variable and doesn't close it"), "add the '}', or write $${ for a literal ${".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_once_and_defaults_fill_what_is_unset_or_empty() {
        let lookup = |name: &str| match name {
            "A" => Some("one".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${A}".to_owned()),
            _ => None,
        };
        for (text, want) in [
            ("plain", Ok("plain")),
            ("${A}", Ok("one")),
            ("x/${A}/y/${A}", Ok("x/one/y/one")),
            ("${B:-two}", Ok("two")),
            ("${A:-two}", Ok("one")),
            ("${EMPTY}", Ok("")),
            ("${EMPTY:-two}", Ok("two")),
            ("${B:-}", Ok("")),
            ("${NESTED}", Ok("${A}")),
            ("$${A}", Ok("${A}")),
            ("5$ and $A", Ok("5$ and $A")),
            ("${B}", Err("the environment variable B is not set")),
            ("${}", Err("'${}' doesn't name an environment variable")),
            ("${1A}", Err("'${1A}' doesn't name an environment variable")),
            ("a${A", Err("'${A' opens a variable and doesn't close it")),
        ] {
            let got = replace(text, &lookup);
            assert_eq!(got.as_deref().map_err(|(what, _)| what.as_str()), want, "{text}");
        }
    }
}
