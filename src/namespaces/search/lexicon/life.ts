/** Everyday life: time, places, money, people, food, health, home, science and work. */
export const life = `
time hour clock o'clock when am pm minute moment ~date
date day calendar when ~time
today tonight this_evening now current ~day
tomorrow coming next future days ~day
day weekday monday friday sunday date ~week
week weekday weekend monday sunday ~day
month monthly each_month ~year
year years annual decade yearly ~age
quarter months three_months ~year
age old how_old years lived birthday born birth ~person
birthday birth born anniversary ~date
duration how_long long period interval until length ~time
until how_long before deadline remaining countdown ~date
deadline due due_date weekdays ~date
business_day working_day weekday weekdays workday ~date
holiday holidays christmas easter vacation closed day_off ~date
christmas holiday easter new_year ~date
time_zone timezone zone tokyo berlin new_york utc local_time ~time
alarm wake wake_up reminder ~time
timer stopwatch countdown pomodoro interval ~time
calendar appointment event meeting schedule agenda diary ~date
meeting appointment call conference event ~calendar
appointment meeting event schedule visit ~calendar
agenda schedule appointments afternoon programme ~today
participant attendee everybody everyone member guest all ~people
free available have_time vacant ~slot
everybody everyone all participants ~people
task todo to-do have_to chore errand duty job still ~work
todo task to-do have_to ~list
minutes protocol notes decisions action_items transcript ~meeting
hours worked time timesheet log long ~work
moon lunar phase ~sky
sun sunrise sunset dark daylight dawn dusk light ~day
dark dusk night sunset light lamp ~light
weather rain umbrella snow sunny wind temperature forecast storm cold hot climate cloudy ~tomorrow
rain umbrella wet shower ~weather
temperature cold warm hot warmer heat cool degrees celsius ~weather
pollution smog air_quality dirty_air emissions ~air
place location city where spot town somewhere ~map
city town place paris rome london berlin munich vienna hamburg tokyo ~place
address street avenue road ~place
coordinates latitude longitude position gps location ~map
route way drive directions path navigate navigation road ~travel
drive car way driving road ~route
distance how_far far apart miles kilometres away ~length
far apart distance away miles ~distance
near nearby around around_here close closest neighbourhood ~place
height elevation altitude tall hill ~mountain
restaurant cafe bar dinner eat_out ~food
cash atm cash_machine money bank ~bank
flight plane airplane fly air airport airline ticket ~travel
hotel room stay overnight accommodation hostel lodging place_to_stay nights weekend ~travel
train rail railway station connection subway ~travel
departure leave depart departs timetable ~train
trip journey travel holiday vacation ~packing
pack luggage suitcase take_along bring ~trip
passport visa border entry immigration ~country
money currency cash euro euros dollar dollars pound funds finance spending ~price
currency euro euros dollar dollars yen exchange money pound ~convert
price cost worth value expensive cheap cheaper quote how_much ~money
cheap cheaper cheapest low_price discount bargain lowest ~price
worth value price market ~stock
cost price spending bill expense high charge ~money
stock share shares market company ticker equity ~price
share shares stock investment ~portfolio
portfolio investment shares perform holdings return invest ~stock
investment invest trading strategy shares portfolio ~money
profit gain return earn perform loss ~money
trading strategy market buy_sell ~stock
past historically history previously last ~old
history past historical historically ~old
crypto bitcoin ethereum coin token btc eth ~currency
loan mortgage borrow debt credit house owe lend ~bank
house home mortgage property real_estate flat ~loan
interest savings rate growth ~bank
savings save rich wealth nest_egg ~interest
rich wealth money savings ~growth
growth grow increase develop rise ~future
tax duty government vat sales_tax levy fiscal ~pay
government state tax public ~country
income salary earnings wage pay earn ~money
salary wage pay payroll income earnings ~job
expense spending cost expenses expenditure outlay ~budget
budget spending finances ~plan
transaction payment card_payment purchase bank transfer ~money
bank account iban statement banking ~money
bookkeeping books ledger accounts accounting ~bank
invoice bill client charge billing ~payment
bill invoice owe dinner check tab charge ~pay
receipt slip supermarket till ticket proof ~purchase
tip gratuity ~restaurant
friends people everyone everybody group ~share
customer client buyer shopper consumer user ~person
product item goods article laptop merchandise ~shop
shop store supermarket market retailer stores ~buy
supermarket grocery groceries shop buy ~food
shopping buy purchase supermarket groceries ~list
groceries food supermarket ~shopping
equation formula solve x algebra ~math
integral integrate area area_under antiderivative ~math
derivative slope differentiate gradient rate_of_change ~math
formula expression equation function ~math
curve function line graph ~fit
matrix linear_algebra array ~math
regression trend line fit best_fit straight_line ~statistics
trend line direction tendency development ~series
significance significant real chance coincidence luck ~statistics
mean average median expected ~statistics
group sample cohort set ~people
correlation move_together relation depend dependence variables ~statistics
confidence certainty interval uncertainty margin ~statistics
participant subject respondent recruit people volunteer ~experiment
experiment trial study test ~science
variant version landing_page a_b option ~test
conversion converts won signups ~customer
prime factor factorise factorize divisor ~number
integer number whole_number ~math
number digit figure integer numeric ~math
unit miles kilometres kilometers kilograms pounds metre feet ounces gallons litres celsius fahrenheit ~convert
length miles kilometres metres feet inches ~distance
weight heavy kilograms pounds mass kilos ~size
mass weight heavy mole molar ~chemistry
hexadecimal hex binary octal decimal ~number
roman latin numerals ~number
constraint limit limited restriction bound resources ~condition
resources supply limited capacity materials ~production
production manufacturing factory output ~work
network graph nodes edges ~path
path route way road ~graph
tour visit order stops itinerary round ~route
stop visit client place ~tour
value worth benefit utility ~price
time_series series sales history sequence values ~data
series sequence time_series values ~data
sales revenue turnover income sell ~business
revenue sales turnover income earnings ~money
liked enjoy favourite prefer might_buy taste ~rating
user customer client person member ~account
team colleagues channel chat slack coworkers group ~work
chat slack channel message messenger talk ~team
slack chat channel team ~message
telegram messenger chat bot ~message
phone mobile telephone cell smartphone number sms ~call
sms text_message mobile phone texting ~message
mobile phone smartphone cell ~number
message note text mail notice ~send
social_network twitter x facebook instagram linkedin tweet social_media ~post
tweet twitter x share ~post
boss manager supervisor chief ~work
presentation slides talk deck keynote lecture ~show
resume cv curriculum_vitae candidate applicant application experience ~job
candidate applicant person job_seeker ~resume
experience background career history ~skill
job position opening vacancy employment career work hiring positions ~work
source sources reference references citation bibliography thesis works_cited ~paper
citation reference cite source bibliography ~paper
thesis dissertation paper essay ~university
research science scientific papers study studies academic ~paper
recipe cook dish cooking ingredient meal bake kitchen eggs ~food
cook cooking dish recipe prepare bake ~food
ingredient eggs flour food ~recipe
food eat meal dish fruit nutrition ~health
nutrition healthy calories protein diet vitamins fat nutrients ~food
healthy health nutrition fit wellness ~body
meal eat breakfast lunch dinner food dish ~plan
dinner meal restaurant supper lunch ~food
servings portions people ~recipe
overweight bmi fat obese body_mass thin ~weight
body overweight fit health ~person
fit workout training exercise marathon sport gym running strength ~health
marathon running run race sport ~training
training exercise workout fit ~sport
sleep night rest bed asleep ~health
medicine medication drugs drug pills pill tablets prescription ~health
drug drugs medicine medication pills ~health
book novel isbn title author ~read
actor acted cast star starring ~movie
encyclopedia wikipedia article tell_me_about ~knowledge
definition meaning mean define dictionary ~word
synonym another_term another_word other_word similar_meaning thesaurus alternative ~word
vocabulary words terms language ~learn
flashcard cards memorise memorize vocabulary study learn ~questions
quiz questions exam test students multiple_choice ~learn
student pupil learner school class ~learn
understand comprehend understood grasp follow ~learn
game play puzzle chess sudoku crossword dice ~fun
puzzle game riddle sudoku crossword ~solve
gift present birthday give surprise ~person
present gift give mother birthday ~occasion
mother father parent family wife husband ~person
plant flower garden water tree ~nature
water dry watering drink moist ~plant
dry water thirsty arid ~plant
chemistry molecule chemical compound reaction mole formula atom ~science
element atom metal gas ~chemistry
dna gene genome amino_acid protein ~biology
star stars sky astronomy constellation ~night
earthquake quake ground shake seismic tremor ~disaster
prospect lead potential_client potential_customer opportunity ~sales
lead prospect potential ~customer
deal opportunity sale contract ~sales
churn cancel leave quit lose likely ~customer
likely risk about_to probability chance probable ~predict
survey questionnaire respondents poll answers ~opinion
respondent answers said participants ~survey
competitor rival other_shops competition ~market
inventory stock warehouse goods restock supplies ~order
warehouse stock inventory storehouse ~goods
restock reorder order replenish running_low ~stock
parcel shipment delivery package post courier ~track
delivery shipment parcel arrived deliver ~track
package parcel shipment box ~post
arrive arrived reach come delivery ~where
postage sticker stamp shipping ~package
contract agreement lease legal clause terms deal ~law
lease contract rent agreement ~house
risk risky danger dangerous hazard threat ~problem
dangerous risky harmful unsafe hazard ~problem
confidential nda secrecy secret ~contract
lamp light lights bulb dark bright illuminate ~home
light lamp dark bright ~sun
heating thermostat warm warmer heat radiator ~home
room bedroom kitchen bathroom living_room office ~home
person people human someone somebody who man woman ~name
people persons human folks men ~person
company firm business organisation organization enterprise corporation ~work
best top optimal ideal cheapest ideal ~good
good best great fine ~nice
problem trouble issue difficulty risk ~error
`;
