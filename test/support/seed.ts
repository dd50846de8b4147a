/**
 * Generated cases are the same in each run, so that what a commit is judged by does not depend on chance: a run that
 * fails can be repeated, and one that passed stays passed. `npm run test:random` looks for cases that nobody has seen.
 */
import fc from "fast-check";

const asked = process.env["TEST_SEED"] ?? "1";

if (asked !== "random") fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(asked) });
