//! `completions`: prints the script with which a shell completes a command line, including paths in
//! images.
//!
//! Options and commands come from the definitions of the command line in `cli`. For a path in an
//! image the scripts call the hidden command `complete`.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::{Cli, CompletionsArguments, with_shared_options};
use crate::failure::Failure;
use crate::run::Run;
use crate::terminal::console::Console;

struct Completions(Shell);

/// Creates the command. No image is opened.
pub(crate) fn open(arguments: &CompletionsArguments) -> Box<dyn Run> {
    Box::new(Completions(arguments.shell))
}

impl Run for Completions {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(
            self.0,
            &mut with_shared_options(Cli::command()),
            "ferroxfs",
            &mut script,
        );
        let script = String::from_utf8_lossy(&script).into_owned();
        let script = match self.0 {
            Shell::Bash => script + BASH,
            Shell::Zsh => script.replacen("_ferroxfs() {\n", &format!("_ferroxfs() {{\n{ZSH}"), 1),
            Shell::Fish => script + FISH,
            _ => script,
        };
        Ok(console.out().write_all(script.as_bytes())?)
    }
}

/// The part of the script for bash that completes paths in images. Readline replaces only the text
/// after the last colon, and quotes nothing.
const BASH: &str = r#"
_ferroxfs_in_images() {
    local line="${COMP_LINE:0:COMP_POINT}" words word reply
    IFS=$' \t' read -a words <<< "$line"
    [[ $line == *[[:space:]] && $line != *\\[[:space:]] ]] && words+=("")
    word="${words[-1]}"
    if [[ $word == *:/* || " $line" == *" --image"[\ =]* ]]; then
        local prefix=""
        [[ $COMP_WORDBREAKS == *:* && $word == *:* ]] && prefix="${word%"${word##*:}"}"
        COMPREPLY=()
        while IFS= read -r reply; do
            printf -v reply '%q' "${reply#"$prefix"}"
            COMPREPLY+=("$reply")
        done < <("${words[0]/#\~/$HOME}" complete -- "${words[@]:1}" 2>/dev/null)
        if ((${#COMPREPLY[@]} > 0)); then
            [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace 2>/dev/null
            return 0
        fi
    fi
    _ferroxfs "$@"
}
complete -F _ferroxfs_in_images -o bashdefault -o default ferroxfs
"#;

const ZSH: &str = r#"    if [[ ${words[CURRENT]} == *:/* || ${words[*]} == *' --image'* ]]; then
        local -a in_image
        in_image=(${(f)"$(${(Q)words[1]} complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)"})
        if (( ${#in_image} )); then
            compadd -S '' -- ${(M)in_image:#*/}
            compadd -- ${in_image:#*/}
            return 0
        fi
    fi
"#;

const FISH: &str = r#"
function __ferroxfs_in_image
    set -l words (commandline -opc) (commandline -ct)
    command ferroxfs complete -- $words[2..-1] 2>/dev/null
end
complete -c ferroxfs -n 'string match -q "*:/*" -- (commandline -ct); or string match -q -- "--image*" (commandline -opc)' -f -a '(__ferroxfs_in_image)'
"#;
