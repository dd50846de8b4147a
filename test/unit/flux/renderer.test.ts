import { expect, test } from "vitest";
import { KilledError } from "../../../src/errors.ts";
import { createFluxRenderer, type ProgramEnd } from "../../../src/flux/rendering/renderer.ts";
import { toFailure } from "../../../src/reconcile/failures.ts";

/** How often a preview is tried again whose renderer ends like this. */
async function retryAfter(ended: ProgramEnd | Error) {
  const renderer = createFluxRenderer({
    ...{ program: process.execPath, searchPath: "", demands: undefined, refusal: () => undefined },
    run: () => (ended instanceof Error ? Promise.reject(ended) : Promise.resolve(ended)),
  });
  const failed = renderer.render({ root: "/checkout", kustomizations: [] }, new AbortController().signal);
  return failed.then(() => undefined, (error: unknown) => toFailure(error).retry); // prettier-ignore
}

test("what fails because of the files fails again, and is not repeated at once", async () => {
  const memory = "fatal error: runtime: out of memory";
  expect(await retryAfter({ exitCode: 2, stdout: "", stderr: memory })).toBe("person");
  expect(await retryAfter({ exitCode: 0, stdout: "no answer", stderr: "" })).toBe("person");
  expect(await retryAfter(new Error("spawn EAGAIN"))).toBe("soon");
  expect(await retryAfter({ exitCode: 0, stdout: "[]", stderr: "" })).toBeUndefined();
});

test("a failure names what was being rendered", async () => {
  const renderer = createFluxRenderer({
    ...{ program: process.execPath, searchPath: "", demands: undefined, refusal: () => undefined },
    run({ onLine }) {
      onLine("rendering shop/web");
      return Promise.reject(new KilledError("timeout", "towline-flux was ended"));
    },
  });
  const failed = renderer.renderReleases({ root: "/checkout", releases: [] }, new AbortController().signal);
  await expect(failed).rejects.toMatchObject({ why: "timeout", rendering: "shop/web" });
});
