/** For what a test waits for: long enough for a machine that is busy with others, as what never comes fails all the same. */
export const patience = { timeout: 120_000, interval: 50 };
