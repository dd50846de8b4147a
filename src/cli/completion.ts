/** `towline completion`: scripts for shells, made from the commands themselves. */
import { Argument, type Command } from "commander";
import type { Define } from "./commands.ts";
import { wholeProgram } from "./program.ts";

const shells = ["bash", "zsh", "fish"] as const;
type Shell = (typeof shells)[number];

const help = `
  source <(towline completion bash)                                      bash, for this shell; or from ~/.bashrc
  source <(towline completion zsh)                                       zsh, for this shell; or from ~/.zshrc
  towline completion fish > ~/.config/fish/completions/towline.fish      fish

It completes commands, options and their fixed values; it asks no cluster.`;

export const defineCompletion: Define = (command, { out }) => {
  command
    .addArgument(new Argument("<shell>", "which").choices(shells))
    .addHelpText("after", help)
    .action(async (given: Shell) => out(scripts[given](placesOf(await wholeProgram()))));
};

/** What may come after a line of words. */
interface Place {
  /** `""`, `get`, `get deployments` */
  readonly path: string;
  readonly commands: readonly Word[];
  readonly options: readonly (Word & { readonly choices: readonly string[]; readonly takesValue: boolean })[];
}

interface Word {
  readonly word: string;
  readonly about: string;
}

function placesOf(command: Command, path: readonly string[] = []): Place[] {
  const { options } = command;
  const place: Place = {
    path: path.join(" "),
    commands: command.commands.map((inner) => ({ word: inner.name(), about: inner.description() })),
    options: options.flatMap(({ long, description, argChoices = [], required, optional }) =>
      long ? [{ word: long, about: description, choices: argChoices, takesValue: required || optional }] : [],
    ),
  };
  return [place, ...command.commands.flatMap((inner) => placesOf(inner, [...path, inner.name()]))];
}

const scripts: Readonly<Record<Shell, (places: readonly Place[]) => string>> = { bash, zsh, fish };

/** Words without an option before them name the place; what follows an option with fixed values is one of these. */
function bash(places: readonly Place[]): string {
  const words = places.map(
    ({ path, commands, options }) =>
      `    ${quoted(path)}) words=${quoted([...commands, ...options].map(({ word }) => word).join(" "))} ;;`,
  );
  const values = places.flatMap(({ path, options }) =>
    options
      .filter(({ choices }) => choices.length > 0)
      .map(({ word, choices }) => `    ${quoted(`${path} ${word}`)}) words=${quoted(choices.join(" "))}; found=1 ;;`),
  );
  const isPlace = places.map(({ path }) => quoted(path)).join("|");
  return `# bash completion of towline: source <(towline completion bash)
_towline() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} path="" words="" found="" i word next
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    next=\${path:+$path }$word
    case $next in
    ${isPlace}) path=$next ;;
    *) break ;;
    esac
  done
  case "$path $prev" in
${values.join("\n")}
  esac
  if [ -z "$found" ]; then
    case $path in
${words.join("\n")}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  if [ \${#COMPREPLY[@]} -eq 0 ] && [ -z "$found" ]; then COMPREPLY=($(compgen -f -- "$cur")); fi
}
complete -F _towline towline
`;
}

/** zsh reads what is written for bash. */
function zsh(places: readonly Place[]): string {
  return `# zsh completion of towline: source <(towline completion zsh)
autoload -Uz compinit bashcompinit
(( $+functions[compdef] )) || compinit
bashcompinit
${bash(places)}`;
}

function fish(places: readonly Place[]): string {
  const lines = places.flatMap(({ path, commands, options }) => {
    const known = commands.map(({ word }) => word).join(" ");
    const parts = path.split(" ").filter(Boolean);
    const inside = parts.map((part) => `__fish_seen_subcommand_from ${part}`);
    const before = known === "" ? [] : [`not __fish_seen_subcommand_from ${known}`];
    const when = [...inside, ...before].join("; and ");
    const condition = when === "" ? "" : ` -n ${quoted(when)}`;
    return [
      ...commands.map(({ word, about }) => `complete -c towline -f${condition} -a ${word} -d ${quoted(about)}`),
      ...options.map(({ word, about, choices, takesValue }) => {
        const values = choices.length > 0 ? ` -x -a ${quoted(choices.join(" "))}` : takesValue ? " -r" : "";
        return `complete -c towline${condition} -l ${word.slice(2)}${values} -d ${quoted(about)}`;
      }),
    ];
  });
  return `# fish completion of towline: towline completion fish > ~/.config/fish/completions/towline.fish\n${lines.join("\n")}\n`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
