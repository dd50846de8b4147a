/** `towline version` and the version of this build. */
import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import { Option } from "commander";
import type { Define } from "./commands.ts";

export interface BuildVersion {
  readonly version: string;
  /** Present if the build wrote it to package.json. */
  readonly commit?: string | undefined;
  readonly node: string;
}

export function readVersion(): BuildVersion {
  const path = findPackageJSON("..", import.meta.url); // a build moves the sources relative to package.json
  const { version = "unknown", commit } = path ? (JSON.parse(readFileSync(path, "utf8")) as Partial<BuildVersion>) : {};
  return { version, ...(commit !== undefined && { commit }), node: process.version };
}

export const defineVersion: Define = (command, { out }) => {
  const output = new Option("-o, --output <format>", "Output format").choices(["json", "yaml"]).default("json");
  command.addOption(output).action(async (flags: { readonly output: "json" | "yaml" }) => {
    if (flags.output === "json") return out(`${JSON.stringify(readVersion())}\n`);
    const { toData } = await import("./output.ts"); // not needed for JSON
    out(toData("yaml", readVersion()));
  });
};
