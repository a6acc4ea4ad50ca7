/** Mathematics, statistics and the sciences. */
export const sciences = `
algebra equation unknown solve variable x root polynomial quadratic
calculus integral derivative antiderivative limit differentiate integrate area slope
integral antiderivative area primitive integrate accumulate
derivative slope gradient rate_of_change tangent differentiate
matrix linear_algebra array linear_map linear decomposition eigenvalue spectral inverse determinant vector
eigenvalue eigenvector spectral decomposition characteristic principal
inverse reciprocal invert opposite
decomposition factor factorisation break_down
regression trend_line relation fit least_squares linear straight_line slope predict
fit match parameters curve formula model measurements coefficients polynomial
coefficient parameter factor constant
relation relationship correlation association dependency link connection between effect
advertising marketing campaign promotion ads
significance p-value hypothesis test difference chance statistical random real t-test
hypothesis significance test experiment
average mean median moving smooth typical
smooth even_out fluctuation noise moving_average flatten
fluctuation volatility variation noise change oscillation swing
variance spread deviation distribution dispersion range
probability chance likelihood odds risk random likely
simulation monte_carlo scenario random model experiment
optimisation optimization maximise minimise best constraint linear_programming allocate allocation
graph nodes edges network vertices road path
node vertex point station graph
road street path way route highway
shortest optimal cheapest fastest path quickest
tour trip order visit salesman stops delivery_route
knapsack backpack capacity items weight
prime factor divisor divisible multiple number_theory
binary hexadecimal octal decimal base radix
fahrenheit celsius kelvin temperature degrees convert
mile kilometre meter metre foot inch yard length unit
pound kilogram ounce gram weight unit
litre gallon pint cup volume unit
spectrum frequency fourier wave signal harmonic
wave signal sound frequency oscillation
chemistry reaction stoichiometric stoichiometry balance equation compound molecule chemical molar
reaction chemical balance equation stoichiometric coefficients reactants
molecule compound formula molar mass weight mole atoms
element atomic periodic_table gold iron oxygen metal melting boiling atom number
atomic element atom number nuclear
biology gene dna protein cell organism genome
dna gene nucleotide nucleotides genetic sequence amino_acid protein codon rna
protein amino_acid sequence enzyme dna
astronomy star constellation planet sky night telescope moon evening visible
sky star constellation night moon planet evening heaven
moon lunar phase full_moon tide
earthquake quake seismic tremor magnitude ground shake epicentre
physics force energy motion speed
geometry shape triangle circle area angle
statistics sample mean variance test distribution
experiment trial study subjects participants control sample_size recruit
sample_size participants subjects power recruit how_many
a/b variant experiment conversion landing_page winner split_test
correlation related together dependence relationship variables
cluster segment group kmeans similar
accuracy precision recall error folds cross_validation
neural network deep_learning model train
feature input variable predictor importance driver
label class target category
prediction forecast estimate outcome
training learn fit model
research study science paper scientific academic scholarly
climate weather warming temperature
geology rock earth mineral
medicine medical doctor clinical health
`;
