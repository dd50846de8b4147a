/**
 * Parses the subset of the Dockerfile language that ours uses. Anything else is an error, so that nothing is ignored.
 * Pure.
 */

export interface Instruction {
  readonly line: number;
  /** In upper case. */
  readonly name: string;
  /** `--from=build` becomes `from` → `build`. */
  readonly flags: Readonly<Record<string, string>>;
  /** Everything after the flags, with continued lines joined. */
  readonly text: string;
  /** The members of a JSON array, or `undefined` for the shell form. */
  readonly list?: readonly string[] | undefined;
}

export interface Stage {
  readonly from: string;
  readonly name?: string | undefined;
  readonly instructions: readonly Instruction[];
}

export interface Dockerfile {
  /** Arguments before the first stage, with their defaults. */
  readonly args: Readonly<Record<string, string>>;
  readonly stages: readonly Stage[];
}

const known = new Set(
  "ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL RUN SHELL STOPSIGNAL USER VOLUME WORKDIR".split(" "),
);

export function parseDockerfile(text: string): Dockerfile {
  const args: Record<string, string> = {};
  const stages: { from: string; name: string | undefined; instructions: Instruction[] }[] = [];
  for (const instruction of readInstructions(text)) {
    const { name, line } = instruction;
    const stage = stages.at(-1);
    if (!known.has(name)) throw new Error(`line ${line}: ${name} is an unknown instruction`);
    if (name === "FROM") {
      const [from = "", as, called] = instruction.text.split(/\s+/);
      if (as !== undefined && as.toUpperCase() !== "AS") throw new Error(`line ${line}: "AS" is missing`);
      stages.push({ from: expand(from, args), name: called, instructions: [] });
    } else if (stage) stage.instructions.push(instruction);
    else if (name === "ARG") Object.assign(args, toPairs(instruction.text));
    else throw new Error(`line ${line}: ${name} before the first FROM`);
  }
  return { args, stages };
}

function* readInstructions(text: string): Generator<Instruction> {
  let joined = "";
  let first = 0;
  for (const [index, raw] of text.split("\n").entries()) {
    if (/^\s*#/.test(raw) || (joined === "" && raw.trim() === "")) continue;
    if (joined === "") first = index + 1;
    joined += raw.replace(/\\\s*$/, "");
    if (/\\\s*$/.test(raw)) continue;
    yield toInstruction(joined, first);
    joined = "";
  }
}

function toInstruction(text: string, line: number): Instruction {
  const [, name = "", flagText = "", rest = ""] = /^\s*(\S+)((?:\s+--\S+)*)\s+(.*)$/s.exec(text) ?? [];
  // In `HEALTHCHECK --interval=… CMD` the flags come before CMD and belong to HEALTHCHECK.
  const flags = Object.fromEntries(
    flagText
      .trim()
      .split(/\s+/)
      .filter(Boolean)
      .map((flag) => {
        const [, key = "", value = ""] = /^--([^=]+)=?(.*)$/.exec(flag) ?? [];
        return [key, value];
      }),
  );
  return { line, name: name.toUpperCase(), flags, text: rest.trim(), list: toList(rest.trim().replace(/^CMD\s+/, "")) };
}

function toList(text: string): string[] | undefined {
  if (!text.startsWith("[")) return undefined;
  try {
    return JSON.parse(text) as string[];
  } catch {
    return undefined; // like the engine, treat it as a command for the shell
  }
}

/** Parses `A=1 B="two words"`; a lone `A` has an empty value. */
export function toPairs(text: string): Record<string, string> {
  const pairs = text.matchAll(/([\w.]+)(?:=("(?:[^"\\]|\\.)*"|[^\s"]*))?/g);
  return Object.fromEntries(Array.from(pairs, ([, key = "", value = ""]) => [key, value.replace(/^"(.*)"$/s, "$1")]));
}

/** Expands `$A`, `${A}` and `${A:-default}`. */
export function expand(text: string, values: Readonly<Record<string, string>>): string {
  return text.replaceAll(
    /\$(?:(\w+)|\{(\w+)(?::-([^}]*))?\})/g,
    (_, plain?: string, braced?: string, otherwise = "") => values[plain ?? braced ?? ""] || otherwise,
  );
}
