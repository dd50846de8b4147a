/** The command line, called like in `src/cli.ts`. */
import { runProgram, type ProgramDeps } from "../../src/cli/program.ts";

/** Runs `towline …` and returns its output and its exit code. */
export async function towline(argv: readonly string[], deps: Partial<ProgramDeps> & { readonly input?: string } = {}) {
  const [out, err]: [string[], string[]] = [[], []];
  const code = await runProgram(argv, {
    env: {},
    serve: () => Promise.reject(new Error("not asked for")),
    demo: () => Promise.reject(new Error("not asked for")),
    doctor: () => Promise.reject(new Error("not asked for")),
    stdin: () => Promise.resolve(deps.input ?? ""),
    out: (text) => void out.push(text),
    err: (text) => void err.push(text),
    ...deps,
  });
  return { code, out: out.join(""), err: err.join("") };
}
