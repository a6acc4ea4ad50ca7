/**
 * How much of the shared suites runs on `container` and `in-process`. What does not depend on where kernels run is shown on
 * `subprocess` in every run; `npm run test:all` runs all of it on all three.
 */

export const everything = process.env.CELLA_TEST_ALL === '1';
