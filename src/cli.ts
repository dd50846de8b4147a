#!/usr/bin/env node
/** The command `towline`. */
import { text } from "node:stream/consumers";
import { runProgram } from "./cli/program.ts";

// A reader that has seen enough (`towline config print | head`) is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});

/** One question, and one line for an answer. */
async function askPerson(question: string): Promise<string> {
  const { createInterface } = await import("node:readline/promises");
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return await lines.question(question);
  } finally {
    lines.close();
  }
}

process.exitCode = await runProgram(process.argv.slice(2), {
  env: process.env,
  // Only the server needs the whole house; `--help` does not wait for it.
  serve: async (config, log, reading) => {
    const { serve } = await import("./cli/serve.ts");
    return serve(config, log, async (...args) => (await import("./app.ts")).startApp(...args, reading));
  },
  doctor: async (options) => (await import("./app/doctor.ts")).runDoctor(options),
  stdin: () => text(process.stdin),
  ask: process.stdin.isTTY && process.stderr.isTTY ? askPerson : undefined,
  out: (words) => void process.stdout.write(words),
  err: (words) => void process.stderr.write(words),
});
