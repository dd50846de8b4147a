/** The chart's values.yaml: every key with its default, and what it means above it. */
import { format, resolveConfig } from "prettier";
import { stringify } from "yaml";
import { valuesJsonSchema, type ValueSchema } from "./values-schema.ts";

const width = 116;

export async function valuesFile(): Promise<string> {
  const head = "# Written by `npm run docs` from dev/chart/values.ts and src/config/schema.ts. Change it there.\n";
  const text = `${head}\n${lines(valuesJsonSchema(), 0).join("\n")}\n`;
  return format(text, { ...(await resolveConfig(import.meta.filename)), parser: "yaml" });
}

function lines(schema: ValueSchema, depth: number): string[] {
  const indent = "  ".repeat(depth);
  return Object.entries(schema.properties ?? {}).flatMap(([key, property]) => {
    const said = comment(property, indent);
    const gap = depth === 0 ? [""] : [];
    // A key below which everything is commented out would be null.
    const nothing = isEmpty(property) ? " {}" : "";
    if (property.properties) return [...gap, ...said, `${indent}${key}:${nothing}`, ...lines(property, depth + 1)];
    // What has no default of its own can be set all the same: people find it here. Helm reads YAML 1.1, where `on` is true.
    const value =
      property.default === undefined
        ? `# ${key}:`
        : stringify({ [key]: property.default }, { version: "1.1" }).trimEnd();
    return [...gap, ...said, ...value.split("\n").map((line) => indent + line)];
  });
}

function isEmpty({ properties = {} }: ValueSchema): boolean {
  return Object.values(properties).every((one) => one.properties === undefined && one.default === undefined);
}

function comment({ description = "", defaultText, enum: choices, default: value }: ValueSchema, indent: string) {
  const more = [
    ...(choices && !description.includes("`") ? [`One of ${choices.join(", ")}.`] : []),
    ...(value === undefined && defaultText !== undefined ? [`Without it: ${defaultText}.`] : []),
  ];
  return wrap([description, ...more].join(" ").trim(), width - indent.length).map((line) => `${indent}# ${line}`);
}

function wrap(text: string, most: number): string[] {
  const wrapped: string[] = [];
  let line = "";
  for (const word of text.split(/\s+/)) {
    if (line !== "" && line.length + 1 + word.length > most) {
      wrapped.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return line === "" ? wrapped : [...wrapped, line];
}
