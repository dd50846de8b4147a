/**
 * Stops the clock of CPU time for the tests of `npm run mutate`: on a slow machine, the limits of some of them would
 * kill mutants that behave as before. Endless ones run into the time limit.
 */
process.cpuUsage = () => ({ user: 0, system: 0 });
