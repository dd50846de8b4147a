/** `npm run demo`: `towline demo` from the sources, with the page built from them. */
import { Command } from "commander";
import { defineDemo } from "../src/cli/demo.ts";
import { runDemo } from "./demo/run.ts";
import { buildPage } from "./page-build.ts";

const command = new Command("npm run demo --").exitOverride((end) => process.exit(end.exitCode === 0 ? 0 : 2));
const demo = (options: Parameters<typeof runDemo>[0]) => runDemo({ ...options, prepare: buildPage });
defineDemo(command, { demo }, (code) => (process.exitCode = code));
await command.parseAsync();
