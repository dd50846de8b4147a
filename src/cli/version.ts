/** Which build this is. */
import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import { Option } from "commander";
import type { Define } from "./commands.ts";

export interface Version {
  readonly version: string;
  /** Where the build has written it into package.json. */
  readonly commit?: string | undefined;
  readonly node: string;
}

export function readVersion(): Version {
  const path = findPackageJSON("..", import.meta.url); // package.json is not where the sources are once they are built
  const { version = "unknown", commit } = path ? (JSON.parse(readFileSync(path, "utf8")) as Partial<Version>) : {};
  return { version, ...(commit !== undefined && { commit }), node: process.version };
}

export const defineVersion: Define = (command, { out }) => {
  const output = new Option("-o, --output <format>", "how to print it").choices(["json", "yaml"]).default("json");
  command.addOption(output).action(async (flags: { readonly output: "json" | "yaml" }) => {
    if (flags.output === "json") return out(`${JSON.stringify(readVersion())}\n`);
    const { toData } = await import("./output.ts"); // who only wants help does not wait for it
    out(toData("yaml", readVersion()));
  });
};
