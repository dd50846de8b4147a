/** Under emulation, everything in the image takes ten times as long. */
export const isEmulated = process.env["TEST_EMULATED"] === "yes";

/**
 * Limit for waiting in tests: long enough for a busy machine, because an event that never comes fails the test in any
 * case.
 */
export const patience = { timeout: isEmulated ? 600_000 : 120_000, interval: 100 };
