/** `towline completion`: shell scripts generated from the command definitions. */
import { Argument, type Command } from "commander";
import type { Define } from "./commands.ts";
import { wholeProgram } from "./program.ts";

const shells = ["bash", "zsh", "fish"] as const;
type Shell = (typeof shells)[number];

const help = `
Completes commands, options and their fixed values, without access to a cluster.

Examples:
  source <(towline completion bash)                                      Enable it in this bash, or put it into ~/.bashrc
  source <(towline completion zsh)                                       Enable it in this zsh, or put it into ~/.zshrc
  towline completion fish > ~/.config/fish/completions/towline.fish      Install it for fish`;

export const defineCompletion: Define = (command, { out }) => {
  command
    .addArgument(new Argument("<shell>", "Shell to print the script for").choices(shells))
    .addHelpText("after", help)
    .action(async (given: Shell) => out(scripts[given](placesOf(await wholeProgram()))));
};

/** What may follow the words typed so far. */
interface Place {
  /** `""`, `get`, `get deployments` */
  readonly path: string;
  readonly commands: readonly Word[];
  readonly options: readonly CompletedOption[];
  /** Fixed values of the command's argument. */
  readonly values: readonly string[];
}

interface Word {
  readonly word: string;
  readonly about: string;
}

interface CompletedOption extends Word {
  readonly short: string | undefined;
  readonly choices: readonly string[];
  readonly takesValue: boolean;
}

const helpOption = {
  word: "--help",
  short: "-h",
  about: "Show usage with examples",
  choices: [],
  takesValue: false,
};

function placesOf(command: Command, path: readonly string[] = []): Place[] {
  const options = command.options.flatMap(({ long, short, description, argChoices = [], required, optional }) =>
    long ? [{ word: long, short, about: description, choices: argChoices, takesValue: required || optional }] : [],
  );
  const place: Place = {
    path: path.join(" "),
    commands: command.commands.map((inner) => ({ word: inner.name(), about: inner.description() })),
    options: [...options, helpOption],
    values: command.registeredArguments[0]?.argChoices ?? [],
  };
  return [place, ...command.commands.flatMap((inner) => placesOf(inner, [...path, inner.name()]))];
}

const scripts: Readonly<Record<Shell, (places: readonly Place[]) => string>> = { bash, zsh, fish };

/** One line of a shell's `case` for each place and option that takes a value: `path option`. */
function casesOf(places: readonly Place[], toLine: (option: CompletedOption) => string | undefined): string {
  const lines = places.flatMap(({ path, options }) =>
    options.flatMap((option) => {
      const line = toLine(option);
      const names = [option.word, ...(option.short ? [option.short] : [])].map((name) => quoted(`${path} ${name}`));
      return line === undefined ? [] : [`    ${names.join("|")}) ${line} ;;`];
    }),
  );
  return lines.join("\n");
}

/** The words before the first option name the place. After an option with fixed values, those are offered. */
function bash(places: readonly Place[]): string {
  const words = places.map(({ path, commands, options, values }) => {
    const all = [...commands, ...options].map(({ word }) => word);
    return `    ${quoted(path)}) words=${quoted([...values, ...all].join(" "))} ;;`;
  });
  const values = casesOf(places, ({ choices, takesValue }) =>
    choices.length > 0 ? `words=${quoted(choices.join(" "))}; found=1` : takesValue ? "found=files" : undefined,
  );
  const isPlace = places.map(({ path }) => quoted(path)).join("|");
  return `# bash completion of towline: source <(towline completion bash)
_towline() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} place="" words="" found="" i word next
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    next=\${place:+$place }$word
    case $next in
    ${isPlace}) place=$next ;;
    *) break ;;
    esac
  done
  case "$place $prev" in
${values}
  esac
  if [ -z "$found" ]; then
    case $place in
${words.join("\n")}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  if [ \${#COMPREPLY[@]} -eq 0 ] && [ "$found" != 1 ]; then COMPREPLY=($(compgen -f -- "$cur")); fi
}
complete -o filenames -F _towline towline
`;
}

function zsh(places: readonly Place[]): string {
  const described = (words: readonly Word[]) =>
    words.map(({ word, about }) => quoted(`${word}:${about.replaceAll(":", "\\:")}`)).join(" ");
  const values = casesOf(places, ({ choices, takesValue }) =>
    choices.length > 0 ? `known=(${choices.join(" ")}); found=1` : takesValue ? "_files; return" : undefined,
  );
  const words = places.map(
    ({ path, commands, options, values: fixed }) =>
      `    ${quoted(path)}) known=(${[...fixed.map(quoted), described(commands)].filter(Boolean).join(" ")}); options=(${described(options)}) ;;`,
  );
  const isPlace = places.map(({ path }) => quoted(path)).join("|");
  return `#compdef towline
# zsh completion of towline: source <(towline completion zsh), or as _towline in a directory of $fpath
_towline() {
  local place="" found="" i next prev=\${words[CURRENT-1]} cur=\${words[CURRENT]}
  for ((i = 2; i < CURRENT; i++)); do
    next=\${place:+$place }\${words[i]}
    case $next in
    ${isPlace}) place=$next ;;
    *) break ;;
    esac
  done
  local -a known options
  case "$place $prev" in
${values}
  esac
  if [[ -z $found ]]; then
    case $place in
${words.join("\n")}
    esac
  fi
  if [[ $cur == -* ]]; then
    _describe -o option options
  elif (( \${#known} )); then
    _describe word known
  else
    _files
  fi
}
if [[ \${funcstack[1]} == _towline ]]; then
  _towline "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
  compdef _towline towline
fi
`;
}

function fish(places: readonly Place[]): string {
  const lines = places.flatMap(({ path, commands, options, values }) => {
    const condition = ` -n ${quoted(`__towline_at ${quoted(path)}`)}`;
    return [
      ...(commands.length > 0 || values.length > 0 ? [`complete -c towline -f${condition}`] : []),
      ...commands.map(({ word, about }) => `complete -c towline -f${condition} -a ${word} -d ${quoted(about)}`),
      ...values.map((value) => `complete -c towline -f${condition} -a ${value}`),
      ...options.map(({ word, short, about, choices, takesValue }) => {
        const given = choices.length > 0 ? ` -x -a ${quoted(choices.join(" "))}` : takesValue ? " -r" : "";
        const letter = short === undefined ? "" : ` -s ${short.slice(1)}`;
        return `complete -c towline${condition} -l ${word.slice(2)}${letter}${given} -d ${quoted(about)}`;
      }),
    ];
  });
  const isPlace = places.map(({ path }) => quoted(path)).join(" ");
  return `# fish completion of towline: towline completion fish > ~/.config/fish/completions/towline.fish
function __towline_at
  set -l place ""
  for word in (commandline -opc)[2..]
    set -l next (string trim -- "$place $word")
    contains -- $next ${isPlace}; or break
    set place $next
  end
  test "$place" = "$argv[1]"
end
${lines.join("\n")}
`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
