//! Tests of the published schemas of the JSON output of `check` and `repair`.
//!
//! The validator knows the keywords that the schemas use, and fails on any other. It refuses keys
//! that a schema does not have, which shows that each key of the output is described.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;

use crate::changing::VolumeDir;

/// The keywords of schemas that restrict no value by themselves.
const WORDS: [&str; 5] = ["$schema", "title", "description", "$defs", "required"];

/// A published schema.
struct Schema(Value);

impl Schema {
    fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(name);
        Self(serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap())
    }

    /// Returns the part of the schema at a JSON pointer.
    fn part(&self, pointer: &str) -> &Value {
        self.0.pointer(pointer).unwrap_or_else(|| panic!("the schema has no {pointer}"))
    }

    /// Checks a value against the part of the schema at `pointer`.
    fn check(&self, pointer: &str, value: &Value) -> Result<(), String> {
        self.fits(self.part(pointer), value).map_err(|why| format!("{why} in {value}"))
    }

    fn fits(&self, schema: &Value, value: &Value) -> Result<(), String> {
        for (keyword, rule) in schema.as_object().unwrap() {
            match keyword.as_str() {
                "$ref" => {
                    let target = rule.as_str().unwrap().strip_prefix('#').unwrap();
                    self.fits(self.part(target), value)?;
                }
                "anyOf" => {
                    let mut reasons = Vec::new();
                    for part in rule.as_array().unwrap() {
                        reasons.extend(self.fits(part, value).err());
                    }
                    if reasons.len() == rule.as_array().unwrap().len() {
                        return Err(reasons.join("; "));
                    }
                }
                "type" if !has_type(value, rule.as_str().unwrap()) => {
                    return Err(format!("{value} is not of type {rule}"));
                }
                "const" if rule != value => return Err(format!("{value} is not {rule}")),
                "enum" if !rule.as_array().unwrap().contains(value) => {
                    return Err(format!("{value} is none of {rule}"));
                }
                "minimum" if value.as_f64() < rule.as_f64() => {
                    return Err(format!("{value} is less than {rule}"));
                }
                "items" => {
                    for item in value.as_array().into_iter().flatten() {
                        self.fits(rule, item)?;
                    }
                }
                "properties" => self.has_keys(schema, value)?,
                "type" | "const" | "enum" | "minimum" => {}
                word => assert!(WORDS.contains(&word), "the validator does not know {word}"),
            }
        }
        Ok(())
    }

    fn has_keys(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let Some(object) = value.as_object() else { return Ok(()) };
        for key in schema["required"].as_array().unwrap() {
            if !object.contains_key(key.as_str().unwrap()) {
                return Err(format!("{key} is missing"));
            }
        }
        for (key, value) in object {
            let rule = schema["properties"].get(key);
            let rule = rule.ok_or_else(|| format!("the schema has no key {key}"))?;
            self.fits(rule, value).map_err(|why| format!("{key}: {why}"))?;
        }
        Ok(())
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        other => panic!("the validator does not know the type {other}"),
    }
}

/// Returns a volume with a destroyed AGF and a garbled inode.
fn damaged() -> VolumeDir {
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    for number in 0..50 {
        fs::write(place.path("tree").join(number.to_string()), number.to_string()).unwrap();
    }
    place.check(&["import", "tree", "image:/"]);
    let image = File::options().write(true).open(place.path("image")).unwrap();
    image.write_all_at(&[0; 512], 512).unwrap();
    let found = place.command(&["stat", "--json", "image:/7"]).output().unwrap();
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    let inode = found.pointer("/files/0/ino").and_then(Value::as_u64).expect("the inode number");
    // A volume of this size has inodes of 512 bytes in blocks of 4096 bytes, in the first group.
    image.write_all_at(&[0xa5; 40], inode * 512 + 100).unwrap();
    place
}

fn output(place: &VolumeDir, arguments: &[&str]) -> String {
    let output = place.command(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn output_of_check_fits_its_schema() {
    let schema = Schema::read("check-1.json");
    let place = damaged();
    for options in [&["--json"][..], &["--json", "--all"]] {
        let text = output(&place, &[&["check"], options, &["image"]].concat());
        let document: Value = serde_json::from_str(&text).unwrap();
        assert!(!document["findings"].as_array().unwrap().is_empty());
        schema.check("", &document).unwrap();
    }
    let lines = lines(&output(&place, &["check", "--ndjson", "--all", "image"]));
    assert!(lines.len() > 2);
    for line in &lines {
        schema.check("/$defs/line", line).unwrap();
    }
}

#[test]
fn output_of_repair_fits_its_schema() {
    let schema = Schema::read("repair-1.json");
    let place = damaged();
    let options = ["repair", "--plan", "--allow-loss"];
    let text = output(&place, &[&options[..], &["--json", "image"]].concat());
    let document: Value = serde_json::from_str(&text).unwrap();
    assert!(!document["actions"].as_array().unwrap().is_empty());
    schema.check("", &document).unwrap();
    output(&place, &[&options[..], &["-o", "plan", "image"]].concat());
    let plan = lines(&fs::read_to_string(place.path("plan")).unwrap());
    assert!(plan.len() > 3);
    for line in &plan {
        schema.check("/$defs/line", line).unwrap();
    }
    let options = ["repair", "--yes", "--allow-loss", "--quarantine", "kept"];
    let text = output(&place, &[&options[..], &["--json", "image"]].concat());
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["applied"], true, "{document}");
    schema.check("", &document).unwrap();
    for direction in ["--undo", "--resume"] {
        let text = output(&place, &["repair", direction, "image.undo", "--json", "image"]);
        let document: Value = serde_json::from_str(&text).unwrap();
        schema.check("/$defs/undone", &document).unwrap();
    }
}

#[test]
fn validator_refuses_what_does_not_fit() {
    let schema = Schema::read("check-1.json");
    let place = damaged();
    let text = output(&place, &["check", "--json", "image"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    for (key, value) in [
        ("schema", Value::from("ferroxfs.check/2")),
        ("clean", Value::from(1)),
        ("groups", Value::from(-1)),
        ("new", Value::from(1)),
        ("findings", Value::from(vec![Value::from(1)])),
    ] {
        let mut changed = document.clone();
        changed[key] = value;
        assert!(schema.check("", &changed).is_err(), "{key}");
    }
    let mut short = document;
    short.as_object_mut().unwrap().shift_remove("unchecked");
    assert!(schema.check("", &short).is_err());
}
