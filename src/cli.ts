#!/usr/bin/env node
/** The `towline` command. */
import { existsSync } from "node:fs";
import { text } from "node:stream/consumers";

// An older Node fails on the imports below with a SyntaxError, so check the version first.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 19)) {
  process.stderr.write(`towline needs Node 22.19 or newer; this is Node ${process.versions.node}\n`);
  process.exit(1);
}
const { createPerson } = await import("./cli/person.ts");
const { runProgram } = await import("./cli/program.ts");
const { useProxies } = await import("./cli/proxies.ts");

// A reader that closes the pipe early (`towline config print | head`) is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});

useProxies(process.env);
const person = createPerson(process.stdin, (words) => void process.stderr.write(words));

process.exitCode = await runProgram(process.argv.slice(2), {
  env: process.env,
  // Only `serve` loads the whole server; `--help` does not wait for it.
  serve: async (config, log, reading) => {
    const { serve } = await import("./cli/serve.ts");
    return serve(config, log, async (...args) => (await import("./app.ts")).startApp(...args, reading));
  },
  demo: async (options) => {
    if (!existsSync(new URL("../dev/demo/", import.meta.url)))
      throw new Error("the container image does not contain the demo; run: npx towline demo");
    return (await import("../dev/demo/run.ts")).runDemo(options);
  },
  doctor: async (options) => (await import("./app/doctor.ts")).runDoctor(options),
  stdin: () => {
    if (process.stdin.isTTY) process.stderr.write("reading from the terminal; end with Ctrl-D\n");
    return text(process.stdin);
  },
  ask: process.stdin.isTTY && process.stderr.isTTY ? (question) => person.ask(question) : undefined,
  columns: process.stdout.isTTY ? process.stdout.columns : undefined,
  out: (words) => void process.stdout.write(words),
  err: (words) => void process.stderr.write(words),
});
person.close();
