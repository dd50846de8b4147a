/** The checks of a Dockerfile linter (hadolint) that apply to ours, each with the name of its rule. Pure. */
import type { Dockerfile, Instruction, Stage } from "./dockerfile.ts";

type Rule = (instruction: Instruction, stage: Stage) => string | undefined;

const rules: Readonly<Record<string, Rule>> = {
  DL3000: ({ name, text }) => (name === "WORKDIR" && !text.startsWith("/") ? "WORKDIR is absolute" : undefined),
  DL3003: ({ name, text }) => (name === "RUN" && /^cd\s/.test(text) ? "use WORKDIR" : undefined),
  DL3004: ({ name, text }) => (name === "RUN" && /\bsudo\b/.test(text) ? "no sudo" : undefined),
  DL3009: ({ name, text }) =>
    name === "RUN" && /apt-get update/.test(text) && !/rm -rf [^&;]*\/var\/lib\/apt\/lists/.test(text)
      ? "remove apt's lists in the same layer"
      : undefined,
  DL3014: ({ name, text }) => eachInstall(name, text, /\s(?:-y|--yes)\b/, "apt-get asks"),
  DL3015: ({ name, text }) =>
    eachInstall(name, text, /\s--no-install-recommends\b/, "apt-get brings what is recommended"),
  DL3025: ({ name, list }) =>
    ["CMD", "ENTRYPOINT", "HEALTHCHECK"].includes(name) && list === undefined ? "use a JSON array" : undefined,
  DL3027: ({ name, text }) => (name === "RUN" && /\bapt (?:install|update)\b/.test(text) ? "use apt-get" : undefined),
  DL4006: ({ name, text }) =>
    name === "RUN" && /[^|]\|[^|]/.test(text.replaceAll(/'[^']*'|\|\)/g, "")) && !/pipefail/.test(text)
      ? "a pipe hides who failed"
      : undefined,
  checksum: ({ name, text }) =>
    name === "RUN" && /\b(?:curl|wget)\s+-/.test(text) && !/sha256sum --check/.test(text)
      ? "what is downloaded is compared with a checksum"
      : undefined,
};

export function lint({ stages }: Dockerfile): string[] {
  const found: string[] = [];
  for (const [index, stage] of stages.entries()) {
    const earlier = stages.slice(0, index).map(({ name }) => name);
    if (!/^[\w./-]+:\d[\w.-]+(?:@sha256:[0-9a-f]{64})?$/.test(stage.from) && !earlier.includes(stage.from))
      found.push(`DL3006: ${stage.from} has no version`);
    for (const instruction of stage.instructions) {
      const { flags, line } = instruction;
      if (flags["from"] !== undefined && !earlier.includes(flags["from"]))
        found.push(`DL3022: line ${line}: there is no stage ${flags["from"]} before`);
      for (const [name, rule] of Object.entries(rules)) {
        const problem = rule(instruction, stage);
        if (problem !== undefined) found.push(`${name}: line ${line}: ${problem}`);
      }
    }
  }
  const instructions = stages.at(-1)?.instructions ?? [];
  const user = instructions.findLast(({ name }) => name === "USER")?.text ?? "0";
  if (!/^[1-9]\d*(?::\d+)?$/.test(user)) found.push(`DL3002: the last user is ${user}, not a number but 0`);
  for (const name of ["CMD", "ENTRYPOINT", "HEALTHCHECK"]) {
    if (instructions.filter((one) => one.name === name).length !== 1) found.push(`DL4003: there is one ${name}`);
  }
  return found;
}

function eachInstall(name: string, text: string, wanted: RegExp, problem: string): string | undefined {
  const installs = name === "RUN" ? text.split(/&&|;/).filter((command) => /apt-get install/.test(command)) : [];
  return installs.every((command) => wanted.test(command)) ? undefined : problem;
}
