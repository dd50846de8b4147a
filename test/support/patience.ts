/** Everything in the image takes ten times as long where a program plays its machine. */
export const isEmulated = process.env["TEST_EMULATED"] === "yes";

/** For what a test waits for: long enough for a machine that is busy with others, as what never comes fails all the same. */
export const patience = { timeout: isEmulated ? 600_000 : 120_000, interval: 50 };
